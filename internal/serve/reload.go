package serve

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/pawl-dev/pawl/internal/config"
	"github.com/pawl-dev/pawl/observe/logs"
	"github.com/pawl-dev/pawl/store"
)

// watchEvery is how often the configuration file is looked at, and reloadAgain after what time a
// file that was refused because the store does not answer is tried again.
const (
	watchEvery  = 700 * time.Millisecond
	reloadAgain = 10 * time.Second
)

// loaded is which configuration is in effect.
type loaded struct {
	file   string
	at     time.Time
	faults []string // of the newest file, if that is not in effect
}

// reopenEvents reopens the file for events, which may have been moved away before the
// hangup.
func (d *Daemon) reopenEvents() {
	if d.eventsFile == nil {
		return
	}
	if err := d.eventsFile.Reopen(); err != nil {
		d.Logger.Warn("events still go to the previous file", "error", err)
	}
}

// watchConfig reloads on a hangup, and when the file has changed. It compares what the
// file holds: editors write, rename and touch files as they like. A change counts once
// the file is the same in two successive looks, so that it is not read while it is
// written: many editors empty it first. A hangup means that it is complete.
func (d *Daemon) watchConfig(ctx context.Context) {
	now := d.Text
	var before config.Source
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	var again time.Time // zero: what the store has refused is not tried again
	for gone := false; ; {
		asked := false
		select {
		case <-ctx.Done():
			return
		case <-d.Hangup:
			asked = true
			d.reopenEvents()
		case <-tick.C:
		}
		src, err := d.Read()
		switch {
		case err != nil && (asked || !gone):
			d.refuse(err)
			gone = true
		case err != nil:
		case asked, (gone || !bytes.Equal(src.Text, now) || !again.IsZero() && time.Now().After(again)) &&
			src.Settled(&before):
			now, gone, again = src.Text, false, time.Time{}
			if d.reload(src) {
				again = time.Now().Add(reloadAgain)
			}
		}
		before = src
	}
}

// reload validates, builds, and swaps what can be swapped. With a fault, nothing
// changes. It reports whether the same file may be in order later: the store did not answer.
func (d *Daemon) reload(src config.Source) (again bool) {
	d.notifier.Reloading()
	defer func() { d.notifier.Ready(d.status()) }()
	next, kept, err := d.put(src)
	if err != nil {
		d.refuse(err)
		return errors.Is(err, store.ErrUnavailable)
	}
	d.mu.Lock()
	d.loaded = loaded{file: next.File, at: time.Now()}
	d.mu.Unlock()
	d.metrics.Reloaded(true, time.Now())
	d.Logger.Info("configuration reloaded", "file", next.File, "overrides", len(next.Overrides))
	d.warn(next)
	if paths := append(config.Restart(d.Config, next), kept...); len(paths) > 0 {
		d.Logger.Warn("needs a restart: "+strings.Join(paths, ", "), "file", next.File)
	}
	return false
}

// put puts what can be swapped into effect, and names what it keeps.
func (d *Daemon) put(src config.Source) (next *config.Config, kept []string, err error) {
	if next, err = d.Load(src); err != nil {
		return nil, nil, err
	}
	matrix, err := Matrix(next.Overrides...)
	if err != nil {
		return nil, nil, err
	}
	level, err := logs.ParseLevel(next.Logger.Level)
	if err != nil {
		return nil, nil, err
	}
	if err := cmp.Or(d.emptied(src, next), d.checkOwn(next)); err != nil {
		return nil, nil, err
	}
	admit, err := d.door.prepare(&next.API)
	if err != nil {
		return nil, nil, err
	}
	if err := d.declareSchedules(next); err != nil { // the store may be away: nothing else has changed yet
		return nil, nil, err
	}
	if kept, err = d.limits.set(next.Limits); err != nil {
		return nil, nil, err
	}
	if err := d.host.Reload(d.dispatcher, next.Pipelines); err != nil {
		return nil, nil, err
	}
	admit()
	d.policy.load(matrix)
	d.Level.Set(level)
	for c, t := range d.running(next) {
		kept = append(kept, d.adjust(c, t)...)
	}
	return next, kept, nil
}

// emptied refuses a file that lost all its topics: it was emptied, or cut off
// while it was written. Taking it for a configuration would drop limits and
// overrides of topics that are carried out all the same.
func (d *Daemon) emptied(src config.Source, next *config.Config) error {
	if len(next.Topics) > 0 || len(d.served) == 0 && len(bytes.TrimSpace(src.Text)) > 0 {
		return nil
	}
	return config.Problems{{
		File: next.File, Line: 1, Column: 1, Path: "topics",
		Message: fmt.Sprintf("there are none, but %d are running", len(d.served)),
		Hint:    "write the complete file again; to stop all work, stop the daemon",
	}}
}

// running are the topics of next that are carried out, and by what.
func (d *Daemon) running(next *config.Config) iter.Seq2[*servedTopic, config.Topic] {
	return func(yield func(*servedTopic, config.Topic) bool) {
		for _, t := range next.Topics {
			for _, c := range d.served {
				if c.topic.Name == t.Name && !yield(c, t) {
					return
				}
			}
		}
	}
}

// checkOwn refuses a limit of a topic that adjust could not set: by then other parts
// of the file are in effect.
func (d *Daemon) checkOwn(next *config.Config) error {
	for c, t := range d.running(next) {
		if c.limitedAs(t) {
			if err := c.limit.Check(t.PerSecond, 0, 0); err != nil {
				return err
			}
		}
	}
	return nil
}

// adjust gives a running topic the numbers of the new configuration, and names those
// that it keeps: as long as other limits of the topic wait for a restart, so does the
// rate, which they may be there to replace.
func (d *Daemon) adjust(c *servedTopic, t config.Topic) (kept []string) {
	if c.limitedAs(t) {
		if err := c.limit.apply(&config.Limit{PerSecond: t.PerSecond}, nil); err != nil {
			d.Logger.Error("limit not changed", "error", err)
		}
	} else if c.limit.now.PerSecond != t.PerSecond {
		kept = append(kept, "topics."+t.Name+".limit")
	}
	d.dispatcher.Wake(t.Name)
	if t.Handler == c.topic.Handler && c.resizes() {
		if err := d.dispatcher.Resize(t.Name, t.Concurrency); err != nil {
			d.Logger.Warn("needs a restart: topics."+t.Name+".concurrency", "error", err)
		}
	}
	return kept
}

// limitedAs reports whether a topic is limited by what t says, but for numbers.
func (c *servedTopic) limitedAs(t config.Topic) bool {
	return c.topic.Adaptive == t.Adaptive && slices.Equal(c.topic.Limits, t.Limits)
}

// warn logs what of a configuration that is in effect is perhaps not what was meant.
func (d *Daemon) warn(c *config.Config) {
	for i := range c.Warnings {
		d.Logger.Warn("the configuration may not mean what was intended",
			slog.String("warning", c.Warnings[i].String()))
	}
}

// refuse keeps what is in effect, and says why.
func (d *Daemon) refuse(err error) {
	faults := []string{err.Error()}
	if ps, ok := errors.AsType[config.Problems](err); ok {
		faults = nil
		for _, p := range ps.Faults() {
			faults = append(faults, p.String())
		}
	}
	for _, f := range faults {
		d.Logger.Error("configuration not reloaded; the previous one stays in effect", slog.String("problem", f))
	}
	d.mu.Lock()
	d.loaded.faults = faults
	d.mu.Unlock()
	d.metrics.Reloaded(false, time.Time{})
}

// status is the state of the daemon, in a line.
func (d *Daemon) status() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	text := fmt.Sprintf("carrying out %d topics", len(d.served))
	if n := len(d.loaded.faults); n > 0 {
		text += fmt.Sprintf("; the configuration file has %d faults and is not in effect", n)
	}
	return text
}
