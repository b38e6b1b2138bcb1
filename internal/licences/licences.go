// Package licences has the licences of what is linked into the binary.
package licences

import _ "embed"

// Text is the licences of the modules that are linked into the binary, and the modules that have each. It is generated:
// go test ./internal/licences -update.
//
//go:embed NOTICE
var Text string
