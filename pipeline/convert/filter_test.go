package convert

import "testing"

func TestPatternsAreForNamesOrPaths(t *testing.T) {
	for _, c := range []struct {
		pattern, path string
		want          bool
	}{
		{"*.md", "a/b/c.md", true}, {"*.md", "a.txt", false}, {"a/*.md", "a/b.md", true}, {"a/*.md", "a/b/c.md", false},
		{"a/**/c.md", "a/c.md", true}, {"a/**/c.md", "a/x/y/c.md", true}, {"**/b/*", "a/b/c", true},
		{"a/**", "a/b/c", true}, {"?.md", "x/a.md", true}, {"[ab].md", "b.md", true}, {"[ab].md", "c.md", false},
		{`\*.md`, "*.md", true}, {`\*.md`, "a.md", false}, {"c.m", "c.md", false},
	} {
		f, err := newFilter([]string{c.pattern}, nil)
		if err != nil || f.admits(c.path) != c.want {
			t.Errorf("%q admits %q: want %v, error %v", c.pattern, c.path, c.want, err)
		}
		if f, err = newFilter(nil, []string{c.pattern}); err != nil || f.admits(c.path) == c.want {
			t.Errorf("%q excludes %q: want %v, error %v", c.pattern, c.path, c.want, err)
		}
	}
	if _, err := newFilter([]string{"[a"}, nil); err == nil {
		t.Error("a pattern without its end is accepted")
	}
}
