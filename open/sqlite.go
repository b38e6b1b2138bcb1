package open

import (
	"context"
	"errors"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/pawl-dev/pawl/store"
	"github.com/pawl-dev/pawl/store/sqlite"
)

// sqliteFile is the PATH of sqlite:PATH.
func sqliteFile(text string) string {
	_, rest, _ := strings.Cut(text, ":")
	path, _, _ := strings.Cut(strings.TrimPrefix(rest, "//"), "?")
	return path
}

func sqliteIdentity(text string) string { return "sqlite:" + realPath(sqliteFile(text)) }

// realPath is the one name of a file, which need not be there yet.
func realPath(path string) string {
	if whole, err := filepath.Abs(path); err == nil {
		path = whole
	}
	if file, err := filepath.EvalSymlinks(path); err == nil {
		return file
	}
	if folder, err := filepath.EvalSymlinks(filepath.Dir(path)); err == nil {
		return filepath.Join(folder, filepath.Base(path))
	}
	return path
}

// sqliteConfig reads sqlite:PATH, with ?synchronous=full|normal|extra and ?cache=KIB if need be.
func sqliteConfig(text string) (sqlite.Config, error) {
	config := sqlite.Config{Path: sqliteFile(text)}
	_, query, _ := strings.Cut(text, "?")
	options, err := url.ParseQuery(query)
	if err != nil {
		return config, urlError("the options after ? cannot be parsed")
	}
	config.Synchronous = sqlite.Synchronous(strings.ToUpper(take(options, "synchronous")))
	if text := take(options, "cache"); text != "" {
		if config.Cache, err = strconv.Atoi(text); err != nil || config.Cache <= 0 {
			return config, urlError("cache is %q; it is a number of KiB above 0", text)
		}
	}
	return config, nothingLeft(options, "synchronous", "cache")
}

func checkSQLite(c Config) error {
	config, err := sqliteConfig(c.URL)
	if err != nil {
		return err
	}
	return config.Check()
}

func openSQLite(ctx context.Context, c Config) (store.Store, error) {
	config, err := sqliteConfig(c.URL)
	if err != nil {
		return nil, err
	}
	path := config.Path
	if c.Waiting != nil {
		config.Waiting = func() { c.Waiting(path) }
	}
	_, err = os.Stat(path)
	missing := errors.Is(err, os.ErrNotExist)
	if _, err := os.Stat(filepath.Dir(path)); missing && c.Existing && path != "" && err == nil {
		if whole, err := filepath.Abs(path); err == nil {
			path = whole // so that one sees in which folder it was looked for
		}
		return nil, &store.Error{Op: "open " + path, Code: store.ErrNotFound, Err: errors.New("there is no such file"),
			Hint: "name the store with --store or PAWL_STORE; `pawl send` makes a new one"}
	}
	config.ReadOnly, config.NoCheck = c.Look && !missing, c.Look && c.NoCheck && !missing
	if c.Created != nil && missing {
		defer func() { // only if it was made
			if _, err := os.Stat(path); err == nil {
				c.Created(path)
			}
		}()
	}
	return sqlite.Open(ctx, config)
}
