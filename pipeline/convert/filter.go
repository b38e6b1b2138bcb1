package convert

import (
	"errors"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
)

// filter says which files are converted: those that match an include, if there are any, and no exclude.
type filter struct{ include, exclude []*regexp.Regexp }

func newFilter(include, exclude []string) (filter, error) {
	in, errIn := globs(include)
	ex, errEx := globs(exclude)
	return filter{in, ex}, errors.Join(errIn, errEx)
}

func globs(patterns []string) ([]*regexp.Regexp, error) {
	all := make([]*regexp.Regexp, len(patterns))
	for i, p := range patterns {
		var err error
		if all[i], err = glob(p); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// glob makes a regular expression: * is anything within a name, ** anything at all, ? one character. A pattern
// without a slash is for names, one with slashes for paths.
func glob(pattern string) (*regexp.Regexp, error) {
	if _, err := path.Match(pattern, ""); err != nil {
		return nil, fmt.Errorf("the pattern %q: %w", pattern, err)
	}
	var b strings.Builder
	b.WriteString("^")
	if !strings.Contains(pattern, "/") {
		b.WriteString("(?:.*/)?")
	}
	for i := 0; i < len(pattern); i++ {
		switch c := pattern[i]; {
		case strings.HasPrefix(pattern[i:], "**/"):
			b.WriteString("(?:.*/)?")
			i += 2
		case strings.HasPrefix(pattern[i:], "**"):
			b.WriteString(".*")
			i++
		case c == '*':
			b.WriteString("[^/]*")
		case c == '?':
			b.WriteString("[^/]")
		case c == '[' && strings.IndexByte(pattern[i:], ']') > 0:
			end := i + strings.IndexByte(pattern[i:], ']')
			b.WriteString(pattern[i : end+1])
			i = end
		case c == '\\' && i+1 < len(pattern):
			i++
			b.WriteString(regexp.QuoteMeta(pattern[i : i+1]))
		default:
			b.WriteString(regexp.QuoteMeta(pattern[i : i+1]))
		}
	}
	return regexp.Compile(b.String() + "$")
}

func (f filter) admits(rel string) bool {
	matches := func(re *regexp.Regexp) bool { return re.MatchString(rel) }
	return !slices.ContainsFunc(f.exclude, matches) &&
		(len(f.include) == 0 || slices.ContainsFunc(f.include, matches))
}
