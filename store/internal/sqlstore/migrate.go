package sqlstore

import (
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/pawl-dev/pawl/store"
)

// Step is one migration: files NNNN_name.up.sql and NNNN_name.down.sql.
type Step struct {
	Version  int
	Name     string
	Up, Down string
}

// Steps reads the migrations of a folder, in order. It is an error if one has
// no way back or if a number is missing.
func Steps(folder fs.FS) ([]Step, error) {
	names, err := fs.Glob(folder, "*.up.sql")
	if err != nil {
		return nil, fmt.Errorf("list migrations: %w", err)
	}
	slices.Sort(names)
	steps := make([]Step, len(names))
	for i, file := range names {
		stem := strings.TrimSuffix(file, ".up.sql")
		number, name, _ := strings.Cut(stem, "_")
		version, err := strconv.Atoi(number)
		if err != nil || version != i+1 {
			return nil, fmt.Errorf("migration %s is not number %d", file, i+1)
		}
		up, err := fs.ReadFile(folder, file)
		if err != nil {
			return nil, fmt.Errorf("read migration: %w", err)
		}
		down, err := fs.ReadFile(folder, stem+".down.sql")
		if err != nil {
			return nil, fmt.Errorf("read migration: %w", err)
		}
		steps[i] = Step{Version: version, Name: name, Up: string(up), Down: string(down)}
	}
	return steps, nil
}

// Embedded returns what reads, once, the migrations of the folder "migrations" that is
// built into the program. It panics if they are not whole, which tests find.
func Embedded(files fs.FS) func() []Step {
	return sync.OnceValue(func() []Step {
		folder, err := fs.Sub(files, "migrations")
		if err != nil {
			panic(err)
		}
		steps, err := Steps(folder)
		if err != nil {
			panic(err)
		}
		return steps
	})
}

// Next finds the next step to be made and its statements; more is false if there is none.
type Next func(steps []Step, applied []store.Migration) (step Step, sql string, more bool)

// Up goes to the newest version.
func Up(steps []Step, applied []store.Migration) (step Step, sql string, more bool) {
	missing := Missing(steps, applied)
	if len(missing) == 0 {
		return Step{}, "", false
	}
	return missing[0], missing[0].Up, true
}

// Down goes back to a version.
func Down(to int) Next {
	return func(steps []Step, applied []store.Migration) (step Step, sql string, more bool) {
		undo := Undo(steps, applied, to)
		if len(undo) == 0 {
			return Step{}, "", false
		}
		return undo[0], undo[0].Down, true
	}
}

// Status says of every step whether it is applied, given what is, and adds those of a newer program.
func Status(steps []Step, applied []store.Migration) []store.Migration {
	all := make([]store.Migration, len(steps))
	for i, s := range steps {
		all[i] = store.Migration{Version: s.Version, Name: s.Name}
		for _, a := range applied {
			if a.Version == s.Version {
				all[i].AppliedAt = a.AppliedAt
			}
		}
	}
	for _, a := range applied {
		if a.Version > len(steps) {
			a.Newer = true
			all = append(all, a)
		}
	}
	return all
}

// Missing returns the steps that are not applied, in order.
func Missing(steps []Step, applied []store.Migration) []Step {
	return slices.DeleteFunc(slices.Clone(steps), func(s Step) bool { return has(applied, s.Version) })
}

// Undo returns the applied steps above version to, the newest first.
func Undo(steps []Step, applied []store.Migration, to int) []Step {
	undo := slices.DeleteFunc(slices.Clone(steps), func(s Step) bool {
		return s.Version <= to || !has(applied, s.Version)
	})
	slices.Reverse(undo)
	return undo
}

func has(applied []store.Migration, version int) bool {
	return slices.ContainsFunc(applied, func(a store.Migration) bool { return a.Version == version })
}

// CheckVersion compares what is applied with what this program knows. The
// error, of code [store.ErrSchema], says whether to migrate or to use a newer
// program.
func CheckVersion(op string, steps []Step, applied []store.Migration) error {
	if err := CheckKnown(op, steps, applied); err != nil {
		return err
	}
	if len(Missing(steps, applied)) > 0 {
		return &store.Error{
			Op: op, Code: store.ErrSchema,
			Err:  fmt.Errorf("it is at version %d, this program needs version %d", newest(applied), len(steps)),
			Hint: "migrate the store: `pawl migrate up`, or AutoMigrate in Go",
		}
	}
	return nil
}

// CheckKnown returns an error, of code [store.ErrSchema], if a newer program has applied steps.
func CheckKnown(op string, steps []Step, applied []store.Migration) error {
	if at := newest(applied); at > len(steps) {
		return &store.Error{
			Op: op, Code: store.ErrSchema,
			Err:  fmt.Errorf("it is at version %d, this program knows versions up to %d", at, len(steps)),
			Hint: "use a newer version of this program; every process on this store must know its schema",
		}
	}
	return nil
}

func newest(applied []store.Migration) (version int) {
	for _, a := range applied {
		version = max(version, a.Version)
	}
	return version
}
