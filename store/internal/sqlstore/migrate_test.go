package sqlstore

import (
	"errors"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/pawl-dev/pawl/store"
)

func files(names ...string) fstest.MapFS {
	fs := fstest.MapFS{}
	for _, n := range names {
		fs[n] = &fstest.MapFile{Data: []byte(n)}
	}
	return fs
}

func TestStepsGoUpAndBack(t *testing.T) {
	steps, err := Steps(files("0001_a.up.sql", "0001_a.down.sql", "0002_b.up.sql", "0002_b.down.sql", "0003_c.up.sql",
		"0003_c.down.sql"))
	if err != nil || len(steps) != 3 || steps[1].Name != "b" || steps[1].Up != "0002_b.up.sql" ||
		steps[1].Down != "0002_b.down.sql" {
		t.Fatal(steps, err)
	}
	applied := []store.Migration{{Version: 1, AppliedAt: time.Unix(1, 0)}, {Version: 2, AppliedAt: time.Unix(2, 0)}}
	if m := Missing(steps, applied); len(m) != 1 || m[0].Version != 3 {
		t.Fatal(m)
	}
	if u := Undo(steps, applied, 0); len(u) != 2 || u[0].Version != 2 {
		t.Fatal(u)
	}
	if s := Status(steps, applied); s[0].AppliedAt.IsZero() || !s[2].AppliedAt.IsZero() {
		t.Fatal(s)
	}
}

func TestStepsMustBeWhole(t *testing.T) {
	for name, folder := range map[string]fstest.MapFS{
		"gap":      files("0001_a.up.sql", "0001_a.down.sql", "0003_c.up.sql", "0003_c.down.sql"),
		"no way":   files("0001_a.up.sql"),
		"nonsense": files("one.up.sql", "one.down.sql"),
	} {
		if _, err := Steps(folder); err == nil {
			t.Errorf("%s: taken", name)
		}
	}
}

func TestVersionsAreCompared(t *testing.T) {
	steps := []Step{{Version: 1}, {Version: 2}}
	one := []store.Migration{{Version: 1}}
	two := append(one, store.Migration{Version: 2})
	if err := CheckVersion("open", steps, two); err != nil {
		t.Fatal(err)
	}
	if err := CheckVersion("open", steps, nil); !strings.Contains(store.Hint(err), "AutoMigrate") {
		t.Errorf("how the schema is made in Go: %q", store.Hint(err))
	}
	for _, applied := range [][]store.Migration{nil, one, append(two, store.Migration{Version: 3})} {
		err := CheckVersion("open", steps, applied)
		if e, ok := errors.AsType[*store.Error](err); !ok || !errors.Is(err, store.ErrSchema) || e.Hint == "" {
			t.Errorf("%v: %v", applied, err)
		}
	}
}
