package convert

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/pipeline"
	"github.com/pawl-dev/pawl/pipeline/convert/doc"
	"github.com/pawl-dev/pawl/pipeline/convert/llm"
)

// maxDocument is the largest file that is read.
const maxDocument = 512 << 20

// errSame says that a file has what it had when it was converted.
var errSame = errors.New("the file is the same")

// Handle converts a file of the run.
func (r *run) Handle(ctx context.Context, d *pawl.Delivery) error {
	path := string(d.Body)
	f := r.hand.get(path)
	if f == nil {
		return nil // left by a killed run: this run appends its files itself
	}
	r.hand.change(func() { f.inWork = true })
	defer r.hand.change(func() { f.inWork = false })
	start := time.Now()
	err := r.convert(ctx, f)
	if errors.Is(err, errSame) {
		r.stats.unchanged.Add(1)
		r.hand.remove(path)
		return nil
	}
	if err == nil {
		r.log.Info("Processing complete", "file", path, "status", completed, "total_duration", time.Since(start))
		r.stats.completed.Add(1)
		r.hand.remove(path)
		return nil
	}
	return r.fail(ctx, f, err, start)
}

// convert writes the Markdown of a file, and then that it is done.
func (r *run) convert(ctx context.Context, f *held) error {
	var all pictures
	md, sum, err := r.document(ctx, f, &all)
	if errors.Is(err, errSame) {
		same := f.record
		same.Status = completed
		if kept := r.write(&same); kept != nil {
			return kept
		}
	}
	if err != nil {
		return err
	}
	text := md.Text
	if r.model != nil && strings.TrimSpace(text) != "" { // there is nothing to improve in an empty document
		if text, err = r.model.improve(ctx, f.Path, text); err != nil {
			return err
		}
	}
	if err := writeFile(filepath.Join(r.out, filepath.FromSlash(f.Output)), text); err != nil {
		return pawl.OfKind("Output", err)
	}
	done := f.record
	done.Pictures = all.names
	done.Status, done.SHA256, done.Error, done.Kind, done.FailedAt = completed, sum, "", "", time.Time{}
	return r.write(&done)
}

// document reads and converts a file, when there is memory and a processor for it.
func (r *run) document(ctx context.Context, f *held, all *pictures) (md doc.Markdown, sum string, err error) {
	size := min(f.Size, maxMemory) // one that is larger than all of it is taken alone
	if r.hand.memory.Acquire(ctx, size) != nil {
		return md, "", context.Cause(ctx)
	}
	defer r.hand.memory.Release(size)
	select {
	case r.cpu <- struct{}{}:
		defer func() { <-r.cpu }()
	case <-ctx.Done():
		return md, "", context.Cause(ctx)
	}
	data, err := readFile(f.file)
	if err != nil {
		return md, "", err
	}
	hash := sha256.Sum256(data)
	if f.SHA256 == hex.EncodeToString(hash[:]) {
		return md, f.SHA256, errSame
	}
	log := r.log.With("file", f.Path)
	md, err = r.registry.Convert(ctx, doc.Document{
		Name: f.Path, Data: data, Charset: r.charset, PageMarkers: r.pageMarkers, Hidden: r.hidden,
		RawNumbers: r.rawNumbers,
		Image:      r.images.keeper(f.Output, all), Trace: trace(ctx, log),
	})
	if err == nil {
		err = pawl.OfKind("Output", all.err)
	}
	return md, hex.EncodeToString(hash[:]), err
}

// trace logs what a conversion does.
func trace(ctx context.Context, log *slog.Logger) func(string, ...any) {
	return func(what string, args ...any) {
		level := slog.LevelDebug
		if what == "Converting Office format" || what == "Charset guessed" {
			level = slog.LevelInfo
		}
		log.Log(ctx, level, what, args...)
	}
}

func readFile(name string) ([]byte, error) {
	file, err := os.Open(name)
	if err != nil {
		return nil, pawl.Permanent(pawl.OfKind("Input", err))
	}
	defer func() { _ = file.Close() }()
	if info, err := file.Stat(); err == nil && info.Size() > maxDocument {
		return nil, doc.Fail(doc.KindTooLarge, "it has %d bytes; %d are the limit", info.Size(), maxDocument)
	}
	data, err := io.ReadAll(io.LimitReader(file, maxDocument+1))
	return data, pawl.OfKind("Input", err)
}

// writeFile replaces a file in a folder that need not be there yet.
func writeFile(name, text string) error {
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return err
	}
	return pipeline.WriteFile(name, 0o644, func(w io.Writer) error {
		_, err := io.WriteString(w, text)
		return err
	})
}

// fail records what went wrong, and says what the runtime does about it.
func (r *run) fail(ctx context.Context, f *held, err error, start time.Time) error {
	if cause := context.Cause(ctx); cause != nil && (errors.Is(cause, pawl.ErrDrain) ||
		errors.Is(cause, pawl.ErrLeaseLost)) {
		return cause
	}
	what := pawl.Describe(err)
	if errors.Is(err, errBudget) || errors.Is(err, errAway) || what.Kind == llm.KindQuota ||
		what.Kind == llm.KindAuth {
		r.halt(err)
		return pawl.Release(0, err.Error())
	}
	if what.Class == pawl.ClassThrottled {
		r.log.Debug("Refused for now", "file", f.Path, "after", what.After)
		return err
	}
	next := f.record
	next.Failures++
	next.Status, next.Error, next.Kind, next.FailedAt = failed, err.Error(), what.Kind, time.Now().UTC()
	final := what.Class == pawl.ClassPermanent || next.Failures-next.Forgiven > r.maxRetries
	if final {
		next.Status = permanent
	}
	if writeErr := r.write(&next); writeErr != nil {
		return writeErr
	}
	r.stats.errors.Add(1)
	if !final {
		r.log.Warn("Attempt failed", "file", f.Path, "failure_count", next.Failures, "error", err)
		r.hand.change(func() { f.record = next })
		return pawl.OfKind(what.Kind, err)
	}
	r.log.Error("Processing failed", "file", f.Path, "status", permanent, "failure_count", next.Failures,
		"kind", what.Kind,
		"error", err, "total_duration", time.Since(start))
	r.stats.permanent.Add(1)
	r.hand.remove(f.Path)
	return pawl.Permanent(err)
}

// halt stops the run early: work in flight is finished, nothing new is begun.
func (r *run) halt(err error) {
	r.stop(fmt.Errorf("%w: %w", errHalted, err))
}

var errHalted = errors.New("the run cannot go on")
