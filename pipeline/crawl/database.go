package crawl

import (
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"
)

const tableOfPages = `CREATE TABLE IF NOT EXISTS pages (url TEXT PRIMARY KEY, final_url TEXT NOT NULL,
status INTEGER NOT NULL, depth BIGINT NOT NULL, title TEXT NOT NULL, content_type TEXT NOT NULL, charset TEXT NOT NULL,
bytes BIGINT NOT NULL, sha256 TEXT NOT NULL, fetched_at TEXT NOT NULL, etag TEXT NOT NULL, links BIGINT NOT NULL,
fields TEXT)`

// target is a database that pages go to. The drivers are those of the program: the packages store/sqlite and
// store/postgres register them.
type target struct {
	driver, address string
}

// databaseOf reads an out that is the URL of a database: sqlite:FILE or postgres://….
func databaseOf(out string) (target, bool) {
	if path, ok := strings.CutPrefix(out, "sqlite:"); ok {
		at := url.URL{Scheme: "file", Opaque: (&url.URL{Path: path}).EscapedPath(),
			RawQuery: "_txlock=immediate&_busy_timeout=10000"}
		return target{"sqlite", at.String()}, true
	}
	scheme, _, _ := strings.Cut(out, "://")
	return target{"pgx", out}, scheme == "postgres" || scheme == "postgresql"
}

// shown is an out without user, password and options.
func shown(out string) string {
	scheme, rest, ok := strings.Cut(out, "://")
	if !ok {
		return out
	}
	rest = rest[strings.LastIndexByte(rest, '@')+1:]
	rest, _, _ = strings.Cut(rest, "?")
	return scheme + "://" + rest
}

// probe refuses a database that cannot take the pages, before they are crawled.
func probe(out string) error {
	to, ok := databaseOf(out)
	if !ok {
		return nil
	}
	if err := writeTable(to, func(pageWriter) error { return errProbed }); err != errProbed {
		return err
	}
	return nil
}

var errProbed = errors.New("nothing is to be written yet")

// writeDatabase writes pages to a file that is a SQLite database.
func writeDatabase(file string, each func(pageWriter) error) error {
	if err := os.Remove(file); err != nil && !errors.Is(err, fs.ErrNotExist) { // of a crawl that was killed
		return cannotWrite(err)
	}
	return writeTable(target{driver: "sqlite", address: file}, each)
}

// writeTable replaces the rows of the table pages in one transaction, so that they are those of one crawl, each once,
// whenever the process is killed.
func writeTable(to target, each func(pageWriter) error) error {
	db, err := sql.Open(to.driver, to.address)
	if err != nil {
		return cannotWrite(err)
	}
	defer func() { _ = db.Close() }()
	db.SetMaxOpenConns(1)
	tx, insert, err := beginPages(db)
	if err != nil {
		return cannotWrite(err)
	}
	defer func() { _ = tx.Rollback() }() // of what was not finished; after a commit it does nothing
	err = each(func(r *Record, _ string) error {
		fields, err := r.fieldsText()
		if err != nil {
			return err
		}
		title := strings.ReplaceAll(r.Title, "\x00", "\uFFFD") // no text of PostgreSQL has a NUL
		_, err = insert.Exec(r.URL, r.FinalURL, r.Status, r.Depth, title, r.ContentType, r.Charset, r.Bytes, r.SHA256,
			r.FetchedAt.Format(time.RFC3339Nano), r.ETag, r.Links, sql.NullString{String: fields, Valid: fields != ""})
		return err
	})
	if err != nil {
		return err
	}
	return notWritten(errors.Join(insert.Close(), tx.Commit(), db.Close()))
}

func beginPages(db *sql.DB) (tx *sql.Tx, insert *sql.Stmt, err error) {
	if tx, err = db.Begin(); err != nil {
		return nil, nil, err
	}
	if _, err = tx.Exec(tableOfPages); err == nil {
		err = checkColumns(tx)
	}
	if err == nil {
		_, err = tx.Exec("DELETE FROM pages")
	}
	if err == nil {
		insert, err = tx.Prepare(
			"INSERT INTO pages VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)")
	}
	if err != nil {
		return nil, nil, errors.Join(err, tx.Rollback())
	}
	return tx, insert, nil
}

// checkColumns refuses a table with other columns: its rows are no crawl's, and would be lost.
func checkColumns(tx *sql.Tx) error {
	rows, err := tx.Query("SELECT * FROM pages WHERE 1 = 0")
	if err != nil {
		return err
	}
	defer func() { _ = rows.Close() }()
	has, err := rows.Columns()
	if err := errors.Join(err, rows.Err()); err != nil {
		return err
	}
	if !slices.Equal(has, columns) {
		return fmt.Errorf("there is a table pages that no crawl has made: it has the columns %s; name another database",
			strings.Join(has, ", "))
	}
	return nil
}
