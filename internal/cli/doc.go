// Package cli is the command line: a file per verb, which reads flags, calls the package that does the work (operate,
// serve, migrate, doctor …) and prints. Data goes to stdout and everything else to stderr; an error is printed in
// three lines: what failed, why, and what to do next.
package cli
