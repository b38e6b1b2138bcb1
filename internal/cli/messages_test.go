package cli

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl/internal/operate"
)

// TestNoTextFromOutsideIsObeyedByATerminal: names of facts that a program states, and what pipelines print, neither.
func TestNoTextFromOutsideIsObeyedByATerminal(t *testing.T) {
	const evil = "\x1b[2J\x07\r\u009b31m"
	var out bytes.Buffer
	describePast(&out, []operate.Attempt{{Attempt: 1, Error: evil, Attrs: map[string]string{"a" + evil: evil}}}, 0)
	s := newSession("test", System{Out: &out, Err: &out, Getenv: func(string) string { return "" }})
	s.output = formatTable
	if err := s.document(nil, func(w io.Writer) error {
		_, err := fmt.Fprintf(w, "the search index does not answer: %s\n", evil)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	if text := out.String(); strings.ContainsAny(text, evil[:1]+"\x07\r\u009b") || !strings.Contains(text, "does not answer") {
		t.Errorf("%q", text)
	}
}
