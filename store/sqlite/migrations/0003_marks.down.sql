DROP TABLE pawl_mark;
