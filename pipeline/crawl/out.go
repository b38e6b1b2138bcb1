package crawl

import (
	"bufio"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pawl-dev/pawl/pipeline"
)

// pageWriter writes a page. What its output has no place for, the record or its Markdown, is left out.
type pageWriter func(r *Record, markdown string) error

// formatOf refuses outputs that cannot be written.
func formatOf(out string) error {
	if _, ok := databaseOf(out); ok {
		return nil
	}
	if isFolder(out) {
		return checkFolder(out)
	}
	switch strings.ToLower(filepath.Ext(out)) {
	case ".jsonl", ".csv", ".db":
		if !strings.Contains(out, "://") {
			return nil
		}
	}
	return fmt.Errorf("%q is not a folder, does not end in .jsonl, .csv or .db, and is not the URL of a database: "+
		"sqlite:FILE or postgres://…", shown(out))
}

// writePages replaces out by the pages that each writes. Where each fails, out stays as it is, and the error is that of
// each. fields are the names of those that have a column of their own in a CSV file.
func writePages(out string, fields []string, each func(pageWriter) error) error {
	if to, ok := databaseOf(out); ok {
		return writeTable(to, each)
	}
	if isFolder(out) {
		return writeFolder(filepath.Clean(out), each)
	}
	write := writeJSON
	switch strings.ToLower(filepath.Ext(out)) {
	case ".csv":
		write = func(file string, each func(pageWriter) error) error { return writeCSV(file, fields, each) }
	case ".db":
		return writeWhole(out, writeDatabase, each)
	}
	return writeWhole(out, write, func(page pageWriter) error { return each(eachItem(page)) })
}

// eachItem writes a record of each item of a page.
func eachItem(page pageWriter) pageWriter {
	return func(r *Record, markdown string) error {
		if len(r.Items) == 0 {
			return page(r, markdown)
		}
		for _, fields := range r.Items {
			item := *r
			item.Fields, item.Items = fields, nil
			if err := page(&item, markdown); err != nil {
				return err
			}
		}
		return nil
	}
}

// writeWhole replaces a file at once.
func writeWhole(out string, write func(string, func(pageWriter) error) error, each func(pageWriter) error) error {
	part := out + ".part" // always the same: the next crawl replaces that of one that was killed
	err := write(part, each)
	if err == nil {
		err = notWritten(os.Rename(part, out))
	}
	if err != nil {
		_ = os.Remove(part)
	}
	return err
}

func writeJSON(file string, each func(pageWriter) error) error {
	return writeText(file, each, func(w io.Writer) (pageWriter, func() error) {
		e := json.NewEncoder(w)
		e.SetEscapeHTML(false)
		return func(r *Record, _ string) error { return e.Encode(r) }, func() error { return nil }
	})
}

// columns of a table, in the order of the JSON. In a CSV file the module's fields have columns before the last one,
// which has those that a program has set.
var columns = []string{"url", "final_url", "status", "depth", "title", "content_type", "charset", "bytes", "sha256",
	"fetched_at", "etag", "links", "fields"}

func writeCSV(file string, fields []string, each func(pageWriter) error) error {
	return writeText(file, each, func(w io.Writer) (pageWriter, func() error) {
		c := csv.NewWriter(w)
		header := slices.Clone(columns[:len(columns)-1])
		for _, name := range fields {
			if slices.Contains(columns, name) {
				name = "fields." + name
			}
			header = append(header, name)
		}
		_ = c.Write(append(header, "fields")) // errors come with Flush
		page := func(r *Record, _ string) error {
			others := *r
			others.Fields = maps.Clone(r.Fields)
			var own []string
			for _, name := range fields {
				text, err := cellText(r.Fields[name])
				if err != nil {
					return err
				}
				own = append(own, text)
				delete(others.Fields, name)
			}
			rest, err := others.fieldsText()
			if err != nil {
				return err
			}
			return c.Write(append(append([]string{
				r.URL, r.FinalURL, strconv.Itoa(r.Status), strconv.FormatInt(r.Depth, 10), r.Title,
				r.ContentType, r.Charset, strconv.FormatInt(r.Bytes, 10), r.SHA256,
				r.FetchedAt.Format(time.RFC3339Nano), r.ETag, strconv.Itoa(r.Links),
			}, own...), rest))
		}
		return page, func() error { c.Flush(); return c.Error() }
	})
}

// cellText is the value of a field as a cell: a text as it is, what is missing as nothing, and all else as JSON.
func cellText(value any) (string, error) {
	switch v := value.(type) {
	case nil:
		return "", nil
	case string:
		return v, nil
	}
	text, err := json.Marshal(value)
	return string(text), err
}

// writeText writes pages to a file, durably.
func writeText(file string, each func(pageWriter) error, begin func(io.Writer) (page pageWriter,
	flush func() error)) error {
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o644)
	if err != nil {
		return cannotWrite(err)
	}
	defer func() { _ = f.Close() }()
	buffer := bufio.NewWriterSize(f, 256<<10)
	page, flush := begin(buffer)
	if err := each(page); err != nil {
		return err
	}
	return notWritten(errors.Join(flush(), buffer.Flush(), f.Sync(), f.Close()))
}

// fieldsText are the fields as JSON, a list of those of the items where there are some, or nothing.
func (r *Record) fieldsText() (text string, err error) {
	var coded []byte
	switch {
	case len(r.Items) > 0:
		coded, err = json.Marshal(r.Items)
	case len(r.Fields) > 0:
		coded, err = json.Marshal(r.Fields)
	}
	return string(coded), err
}

// cannotWrite is the error of an output that cannot be opened.
func cannotWrite(err error) error {
	return &pipeline.Error{What: "cannot write the pages", Err: err,
		Next: "correct --out; the pages stay in the store until they are written: go on with --resume"}
}

// notWritten is the error of an output that cannot be finished; nil: it is.
func notWritten(err error) error {
	if err == nil {
		return nil
	}
	return &pipeline.Error{What: "cannot write the pages", Err: err,
		Next: "make room; the pages stay in the store until they are written: go on with --resume"}
}
