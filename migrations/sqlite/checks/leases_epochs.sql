SELECT 'reservation ' || quote(kind || ' ' || name) || ' has epoch ' || epoch || ', which will be given again'
FROM leases WHERE epoch > (SELECT coalesce(max(seq), 0) FROM sqlite_sequence WHERE name = 'leases')
