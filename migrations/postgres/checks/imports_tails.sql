SELECT 'file ' || quote_literal(text_of(path)) || ' of source ' || source || ' had ' || size || ' bytes, of which ' || consumed || ' were taken and '
    || coalesce(length(tail), 0) || ' kept as its tail'
FROM import_files WHERE tail IS NOT NULL AND size <> consumed + length(tail)
