package edit

import (
	"context"
	"errors"
	"strings"
	"testing"
)

func TestApply(t *testing.T) {
	for _, c := range []struct{ patch, body, want string }{
		{`.to = "b"`, `{"to":"a","id":12345678901234567890,"price":1.10,"tiny":1e-400,"x":"<&>"}`,
			`{"id":12345678901234567890,"price":1.10,"tiny":1e-400,"to":"b","x":"<&>"}`},
		{`.`, ` { "b": 1.0, "a" : 2 } `, ` { "b": 1.0, "a" : 2 } `},
		{`.a = 1`, `{"b":1, "a":1}`, `{"b":1, "a":1}`},
		{`del(.a)`, `{"a":1,"b":[1.50,2]}`, `{"b":[1.50,2]}`},
		{`.n += 1`, `{"n":9007199254740993}`, `{"n":9007199254740994}`},
		{`.items |= map(select(.ok))`, `{"items":[{"ok":true,"v":2.0},{"ok":false}]}`,
			`{"items":[{"ok":true,"v":2.0}]}`},
		{`"text"`, `null`, `"text"`},
	} {
		p, err := Parse(c.patch)
		if err != nil {
			t.Fatalf("%s: %v", c.patch, err)
		}
		got, err := p(t.Context(), []byte(c.body))
		if err != nil || string(got) != c.want {
			t.Errorf("%s of %s: %s, %v; want %s", c.patch, c.body, got, err, c.want)
		}
	}
}

// TestApplyIsBounded: a patch that grows without end is stopped before it takes the memory of the machine.
func TestApplyIsBounded(t *testing.T) {
	p, err := Parse(`[range(1e9)]`)
	if err != nil {
		t.Fatal(err)
	}
	// On a slow machine the time is over first.
	if _, err := p(t.Context(), []byte(`1`)); err == nil || !strings.Contains(err.Error(), "MiB of memory") &&
		!errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
}

func TestApplyRefuses(t *testing.T) {
	t.Setenv("SECRET", "hidden")
	for _, c := range []struct{ patch, body, want string }{
		{`.`, `no json`, "not JSON"}, {`.`, `{} {}`, "something follows"}, {`.`, "\"\xff\"", "not text"},
		{`.`, ``, "not JSON"},
		{`.[]`, `[1,2]`, "more than one"}, {`empty`, `1`, "produces no value"}, {`.a.b`, `[1]`, "fails"},
		{`error("x")`, `1`, "x"},
		{`env.SECRET | error`, `1`, "null"},
	} {
		p, err := Parse(c.patch)
		if err != nil {
			t.Fatalf("%s: %v", c.patch, err)
		}
		if got, err := p(t.Context(), []byte(c.body)); err == nil || !strings.Contains(err.Error(), c.want) ||
			strings.Contains(err.Error(), "hidden") {
			t.Errorf("%s of %s: %s, %v; want an error with %q", c.patch, c.body, got, err, c.want)
		}
	}
	for _, bad := range []string{`.a =`, `nosuch(1)`, `input`, strings.Repeat(" ", maxPatch+1)} {
		if _, err := Parse(bad); err == nil {
			t.Errorf("%.20q is taken for a patch", bad)
		}
	}
}
