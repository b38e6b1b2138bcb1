DROP TABLE @mark;
