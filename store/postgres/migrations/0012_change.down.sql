DROP TABLE @change;
