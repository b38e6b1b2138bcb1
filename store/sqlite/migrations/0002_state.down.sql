DROP TABLE pawl_entry;
DROP TABLE pawl_revision;
