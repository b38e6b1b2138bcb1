-- When what is counted happened last: known of acks.
ALTER TABLE @tally ADD COLUMN at timestamptz;
ALTER TABLE @total ADD COLUMN at timestamptz;
