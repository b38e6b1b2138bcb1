DROP TABLE @entry, @revision;
