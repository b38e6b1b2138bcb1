package convert

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/bmatcuk/doublestar/v4"
)

// filter says which files are converted: those that match an include, if there are any, and no exclude. Its patterns
// have ** for any folders. One without a slash is for names, one with slashes for paths.
type filter struct{ include, exclude []string }

func newFilter(include, exclude []string) (filter, error) {
	for _, p := range slices.Concat(include, exclude) {
		if !doublestar.ValidatePattern(p) {
			return filter{}, fmt.Errorf("the pattern %q: %w", p, doublestar.ErrBadPattern)
		}
	}
	return filter{include, exclude}, nil
}

func (f filter) admits(rel string) bool {
	matches := func(pattern string) bool {
		if !strings.Contains(pattern, "/") {
			return doublestar.MatchUnvalidated(pattern, path.Base(rel))
		}
		return doublestar.MatchUnvalidated(pattern, rel)
	}
	return !slices.ContainsFunc(f.exclude, matches) &&
		(len(f.include) == 0 || slices.ContainsFunc(f.include, matches))
}
