// Package config is the file format of the daemon, pawl.yaml: one table says which
// keys there are, what they hold and what they mean ([format]). Reading, checking,
// the JSON Schema, the listing of effective values and the reference in docs all
// follow from it, so that they cannot differ.
//
// A file is checked as a whole: every problem is reported at once, each with its line
// and column. Above the file are the environment and flags, below it the defaults;
// every value has an origin.
package config
