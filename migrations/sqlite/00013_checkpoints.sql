-- Recovery looks at claims alone.

-- +goose Up
-- The claims: what recovery goes through, however many runs wait.
CREATE INDEX checkpoints_claimed ON checkpoints (scope, run_id) WHERE state = 'claimed';

-- +goose Down
DROP INDEX checkpoints_claimed;
