SELECT 'reservation ' || quote_literal(kind || ' ' || name) || ' has epoch ' || epoch || ', which will be given again'
FROM leases WHERE epoch > (SELECT CASE WHEN is_called THEN last_value ELSE 0 END FROM leases_epoch_seq)
