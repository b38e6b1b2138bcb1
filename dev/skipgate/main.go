// Command skipgate stands behind `go test -json`: it prints what `go test`
// would have printed, names every skipped test with its reason, and counts. In
// CI (CI=true, or PAWL_TEST_REQUIRE set) a skip that allowed.txt does not list
// fails the run, because a test that did not run has proved nothing.
//
// Usage: go test -json ./... | go run ./dev/skipgate
package main

import (
	_ "embed"
	"fmt"
	"io"
	"os"
)

//go:embed allowed.txt
var allowedText string

func main() {
	strict := os.Getenv("CI") == "true" || os.Getenv("PAWL_TEST_REQUIRE") != ""
	os.Exit(run(os.Stdin, os.Stdout, allowedText, strict))
}

// run judges one stream of test events and returns the exit code: 0 when all
// is well, 1 when a test failed, was skipped where that is not allowed, or
// when none ran, and 2 when the list of allowed skips is broken.
func run(in io.Reader, out io.Writer, allowed string, strict bool) int {
	list, err := parseAllowed(allowed)
	if err != nil {
		fmt.Fprintln(out, "skipgate:", err)
		return 2
	}
	r := newReport(out)
	if err := r.read(in); err != nil {
		fmt.Fprintln(out, "skipgate: read events:", err)
		return 1
	}
	refused := r.listSkips(list, strict)
	r.close()
	if r.failed > 0 || r.broken || refused > 0 || r.passed == 0 {
		return 1
	}
	return 0
}
