ALTER TABLE pawl_state DROP COLUMN clock;
