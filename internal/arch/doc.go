// Package arch holds the rules of the source tree as a test: which packages may import
// which, which package owns which library, and how packages are named, documented and
// limited in size. The rules are data with a reason each, in data_test.go; what breaks
// one is reported with its place and that reason.
package arch
