package project

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/pawl-dev/pawl/pipeline"
	"github.com/pawl-dev/pawl/store"
)

func verifyCommand(ctx context.Context, in *pipeline.Invocation, p *projection) error {
	if p.source == nil {
		return p.noSource("verify")
	}
	if err := p.source.try(ctx, p.rows); err != nil {
		return &pipeline.Error{Code: pipeline.ExitUsage, What: "the source cannot be read", Err: err,
			Next: "correct pipelines." + p.name + ".source"}
	}
	var checked atomic.Int64
	line := func() string { return pipeline.Some(checked.Load(), "document", "documents") + " looked at" }
	board := in.Board(func() []string { return []string{line()} }, line)
	c, err := verifier{p}.compare(ctx, p.alias, int(in.Flags.Int("sample")), checked.Store)
	board.Stop()
	if err != nil {
		return &pipeline.Error{What: "the index was not verified", Err: err,
			Next: "is the search index there? pawl project status " + p.name}
	}
	err = in.Print(c, "%s: %d checked, %v\n", c.Verdict, c.Checked, c)
	if err == nil && c.Verdict != equal {
		err = &pipeline.Error{Code: pipeline.ExitProblems, What: "the index differs from the table",
			Next: "look for dead letters: pawl project status " + p.name}
	}
	return err
}

func (p *projection) noSource(what string) error {
	return &pipeline.Error{Code: pipeline.ExitUsage, What: "cannot " + what + " " + p.name, Err: errNoSource,
		Next: "describe the table in pipelines." + p.name + ".source"}
}

func rebuildCommand(ctx context.Context, in *pipeline.Invocation, p *projection) error {
	if in.Flags.Bool("abort") {
		switch err := p.abort(ctx); {
		case errors.Is(err, errSwaps):
			return &pipeline.Error{Code: pipeline.ExitConflict, What: "the rebuild of " + p.name + " is not aborted",
				Err: err, Next: "let the daemon end it, and go back: pawl project rollback " + p.name}
		case errors.Is(err, errNoRebuild):
			return &pipeline.Error{Code: pipeline.ExitConflict, What: "nothing of " + p.name + " was aborted",
				Err: err, Next: "see how it stands: pawl project status " + p.name}
		case err != nil:
			return err
		}
		return in.Audit(ctx, p.store, "project rebuild", p.projection, 1, "aborted")
	}
	if p.source == nil {
		return p.noSource("rebuild")
	}
	st, err := p.begin(ctx)
	if err != nil {
		return err
	}
	if err := in.Audit(ctx, p.store, "project rebuild", p.projection, 1, "into "+st.Target); err != nil {
		return err
	}
	target := st.Target
	if st, err = p.follow(ctx, in, st); err != nil {
		return err
	}
	if st.Error == "" && !slices.Contains([]string{st.Index, st.Previous}, target) {
		return &pipeline.Error{Code: pipeline.ExitConflict, What: "the rebuild into " + target + " was aborted",
			Err:  errors.New("somebody else ended it; the alias is unchanged"),
			Next: "see how it stands: pawl project status " + p.name}
	}
	err = in.Print(st, "%s: %s, index %s\n", st.Verdict, pipeline.Some(st.Done, "document", "documents"),
		st.Index)
	if err == nil && st.Error != "" {
		err = &pipeline.Error{Code: pipeline.ExitProblems, What: st.Error,
			Next: "correct what is wrong and rebuild again; the alias is unchanged"}
	}
	return err
}

// follow shows a rebuild until it has ended. Interrupting the display does not stop the rebuild.
func (p *projection) follow(ctx context.Context, in *pipeline.Invocation, st state) (state, error) {
	var seen atomic.Pointer[state]
	seen.Store(&st)
	line := func() string { return progress(seen.Load(), time.Now()) }
	board := in.Board(func() []string { return []string{line()} }, line)
	defer board.Stop()
	for store.Sleep(ctx, settleLook) == nil {
		next, err := p.state(ctx)
		if ctx.Err() != nil {
			break
		}
		if err != nil || next.State != building && next.State != verifying {
			return next, err
		}
		seen.Store(&next)
	}
	return st, &pipeline.Error{Code: pipeline.ExitUnfinished, What: "the rebuild goes on in the daemon",
		Next: "follow it again: pawl project rebuild " + p.name}
}

func progress(st *state, now time.Time) string {
	text := fmt.Sprintf("%s %s: %d of %d", st.State, st.Target, st.Done, st.Total)
	if st.State == building && st.Started != nil && st.Done > 0 && st.Total > st.Done {
		left := time.Duration(float64(now.Sub(*st.Started)) / float64(st.Done) * float64(st.Total-st.Done))
		text += ", about " + left.Round(time.Second).String() + " left"
	}
	return text
}

func rollbackCommand(ctx context.Context, in *pipeline.Invocation, p *projection) error {
	st, err := p.rollback(ctx)
	if err != nil {
		next := "see how it stands: pawl project status " + p.name
		if errors.Is(err, errNothingBefore) {
			next = "make a new index from the table: pawl project rebuild " + p.name
		}
		return &pipeline.Error{Code: pipeline.ExitConflict, What: "no rollback of " + p.name, Err: err, Next: next}
	}
	if err := in.Audit(ctx, p.store, "project rollback", p.projection, 1, "to "+st.Index); err != nil {
		return err
	}
	return in.Print(st, "the alias %s points to %s; %s is written to as well\n", p.alias, st.Index, st.Previous)
}
