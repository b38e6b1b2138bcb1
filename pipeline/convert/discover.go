package convert

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/store"
)

// source is a file or a tree of files.
type source struct {
	path string
	name string
	many bool // there are others: its files are told apart by its name
}

// found is a file that the walk has found; its content was not read.
type found struct {
	path string // as it is recorded
	file string
	size int64
	mod  time.Time
}

// walk calls each for the files of all sources, in order, skip for what is no file of the run, and lost for what cannot
// be looked at, such as a folder of somebody else.
func (r *run) walk(ctx context.Context, each func(found) error, skip func(), lost func(string, error)) error {
	for _, s := range r.sources {
		err := filepath.WalkDir(s.path, func(p string, d fs.DirEntry, err error) error {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			if err != nil {
				if p == s.path {
					return err
				}
				if !errors.Is(err, fs.ErrNotExist) { // else it was removed meanwhile
					lost(p, err)
				}
				return nil
			}
			if d.IsDir() {
				if info, err := d.Info(); err == nil && os.SameFile(info, r.outInfo) {
					return fs.SkipDir
				}
				return nil
			}
			rel, err := filepath.Rel(s.path, p)
			switch {
			case err != nil || rel == ".":
				rel = s.name
			case s.many:
				rel = filepath.Join(s.name, rel)
			}
			rel = filepath.ToSlash(rel)
			if !d.Type().IsRegular() || !r.filter.admits(rel) {
				skip()
				return nil
			}
			info, err := d.Info()
			if err != nil {
				if !errors.Is(err, fs.ErrNotExist) {
					lost(p, err)
				}
				return nil
			}
			return each(found{rel, p, info.Size(), info.ModTime().UTC()})
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// pages calls each for the files of all sources, in order and so many at once.
func (r *run) pages(ctx context.Context, size int, each func([]found) error, skip func(),
	lost func(string, error)) error {
	var batch []found
	err := r.walk(ctx, func(f found) error {
		if batch = append(batch, f); len(batch) < size {
			return nil
		}
		err := each(batch)
		batch = batch[:0]
		return err
	}, skip, lost)
	if err != nil || len(batch) == 0 {
		return err
	}
	return each(batch)
}

const page = 128 // files that are looked up at once

// survey goes through all files once, ahead of the work, counts them, and records those that are new, so that
// state.json has all of them.
func (r *run) survey(ctx context.Context) error {
	err := r.pages(ctx, 2*page, func(batch []found) error {
		marks := make([]pawl.Mark, len(batch))
		for i, f := range batch {
			value, err := json.Marshal(record{Path: f.path, Status: pending})
			if err != nil {
				return err
			}
			marks[i] = pawl.Mark{Scope: r.scope, Key: markKey(f.path), Value: value} // if it is not there
		}
		_, err := r.marks.PutMarks(ctx, marks...)
		r.stats.files.Add(int64(len(batch)))
		r.changed.Store(true)
		return err
	}, func() { r.stats.skipped.Add(1) }, func(path string, err error) {
		r.log.Error("Not readable", "file", path, "error", err)
		r.stats.unreadable.Add(1)
	})
	r.surveyed.Store(err == nil)
	return err
}

// feed goes through all files and appends a message for each that is to be converted, never more than the hand holds.
func (r *run) feed(ctx context.Context) error {
	return r.pages(ctx, page, func(batch []found) error { return r.feedPage(ctx, batch) }, func() {},
		func(string, error) {}) // the survey counts what is lost
}

func (r *run) feedPage(ctx context.Context, batch []found) error {
	keys := make([]string, len(batch))
	for i := range batch {
		keys[i] = markKey(batch[i].path)
	}
	records, err := r.marks.GetMarks(ctx, r.scope, keys...)
	if err != nil {
		return err
	}
	var msgs []pawl.Message
	send := func() error {
		if len(msgs) == 0 {
			return nil
		}
		err := store.Send(ctx, r.store, msgs...)
		if err == nil {
			r.hand.appended(msgs)
		}
		msgs = msgs[:0]
		r.dispatcher.Wake()
		return err
	}
	for i := range batch {
		var rec record // empty: the file is new
		if m, ok := records[keys[i]]; ok {
			if err := json.Unmarshal(m.Value, &rec); err != nil {
				return err
			}
		}
		rec, due := r.due(&batch[i], rec)
		if !due {
			continue
		}
		for !r.hand.tryAdd(rec, batch[i].file) {
			if err := send(); err != nil {
				return err
			}
			if err := r.hand.wait(ctx, 1); err != nil {
				return err
			}
		}
		msgs = append(msgs, pawl.Message{Topic: r.topic, Body: []byte(batch[i].path)})
	}
	return send()
}

// due reports whether a file is to be converted, and returns its record for that.
func (r *run) due(f *found, rec record) (record, bool) {
	unchanged := rec.same(f.size, f.mod, r.options)
	touched := false // its time is another; what is in it is seen when it is read
	switch {
	case rec.Status == completed && rec.same(f.size, rec.ModTime, r.options):
		_, err := os.Stat(filepath.Join(r.out, filepath.FromSlash(outputName(f.path))))
		there := !errors.Is(err, fs.ErrNotExist) && r.images.there(rec.Pictures)
		if there && unchanged {
			r.stats.unchanged.Add(1)
			return rec, false
		}
		touched = there
	case unchanged && rec.Status == permanent && !r.retryFailed:
		r.stats.permanent.Add(1)
		return rec, false
	}
	next := record{Path: f.path, Status: pending, Size: f.size, ModTime: f.mod, Options: r.options,
		Output: outputName(f.path)}
	if touched {
		next.SHA256, next.Pictures = rec.SHA256, rec.Pictures
	}
	if unchanged {
		next.Failures, next.Forgiven = rec.Failures, rec.Forgiven
		next.Error, next.Kind, next.FailedAt = rec.Error, rec.Kind, rec.FailedAt
	}
	if rec.Status == permanent {
		next.Forgiven = next.Failures
	}
	return next, true
}

// outputName is where the Markdown of a file goes, below the folder of outputs.
func outputName(path string) string { return path + ".md" }
