package crawl

import (
	"database/sql"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"time"
)

const (
	tableOfPages = `CREATE TABLE pages (url TEXT PRIMARY KEY, final_url TEXT NOT NULL, status INTEGER NOT NULL, depth INTEGER NOT NULL,
title TEXT NOT NULL, content_type TEXT NOT NULL, charset TEXT NOT NULL, bytes INTEGER NOT NULL, sha256 TEXT NOT NULL,
fetched_at TEXT NOT NULL, etag TEXT NOT NULL, links INTEGER NOT NULL, fields TEXT)`
	insertPage = `INSERT INTO pages VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`
)

// database makes the writer one of a SQLite database with a table pages. The driver is that of the program: package
// store/sqlite registers it.
func (w *writer) database() error {
	if err := os.Remove(w.part); err != nil && !errors.Is(err, fs.ErrNotExist) { // of a crawl that was killed
		return cannotWrite(err)
	}
	db, err := sql.Open("sqlite", w.part)
	if err != nil {
		return cannotWrite(err)
	}
	db.SetMaxOpenConns(1)
	tx, insert, err := beginPages(db)
	if err != nil {
		_ = db.Close()
		return cannotWrite(err)
	}
	w.page = func(r *Record, _ string) error {
		var fields any
		if len(r.Fields) > 0 {
			text, err := json.Marshal(r.Fields)
			if err != nil {
				return err
			}
			fields = string(text)
		}
		_, err := insert.Exec(r.URL, r.FinalURL, r.Status, r.Depth, r.Title, r.ContentType, r.Charset,
			r.Bytes, r.SHA256,
			r.FetchedAt.Format(time.RFC3339Nano), r.ETag, r.Links, fields)
		return err
	}
	w.flush = func() error { return errors.Join(insert.Close(), tx.Commit()) }
	w.close = func() error {
		_ = tx.Rollback() // of what was not finished; after a commit it does nothing
		return db.Close()
	}
	return nil
}

func beginPages(db *sql.DB) (tx *sql.Tx, insert *sql.Stmt, err error) {
	if tx, err = db.Begin(); err != nil {
		return nil, nil, err
	}
	if _, err = tx.Exec(tableOfPages); err != nil {
		return nil, nil, errors.Join(err, tx.Rollback())
	}
	if insert, err = tx.Prepare(insertPage); err != nil {
		return nil, nil, errors.Join(err, tx.Rollback())
	}
	return tx, insert, nil
}
