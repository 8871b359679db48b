SELECT 'the ' || c.state || ' checkpoint of run ' || quote_literal(c.run_id) || ' in scope ' || c.scope
    || CASE WHEN d.checkpoint IS NULL THEN ' has no document'
            ELSE ' says ' || c.size || ' bytes, its document has ' || length(d.document) END
FROM checkpoints AS c
LEFT JOIN checkpoint_documents AS d ON d.checkpoint = c.id
WHERE d.checkpoint IS NULL OR length(d.document) <> c.size
