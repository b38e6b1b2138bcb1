// Package commands has the commands of schedules and of the state that processes share.
package commands

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/pipeline"
)

// All are the nouns. check refuses a value that the topic of the state is not for.
func All(check func(topic string, value []byte) error) []pipeline.Command {
	return []pipeline.Command{schedules(), state(check)}
}

// usage is an error in the command line.
func usage(why, next string) error {
	return &pipeline.Error{Code: pipeline.ExitUsage, What: "invalid command line", Err: errors.New(why), Next: next}
}

// note says what was done, on stderr.
func note(in *pipeline.Invocation, format string, args ...any) {
	if !in.Quiet {
		_, _ = fmt.Fprintf(in.Stderr, format+"\n", args...)
	}
}

// moment reads the time of a flag; zero if it is not given.
func moment(in *pipeline.Invocation, flag string) (time.Time, error) {
	text := in.Flags.Text(flag)
	if text == "" {
		return time.Time{}, nil
	}
	return parseTime("--"+flag, text)
}

func parseTime(what, text string) (time.Time, error) {
	t, ok := ParseTime(text)
	if !ok {
		return t, usage(fmt.Sprintf("%s is %q, which is no time", what, text), "such as 2026-01-31T12:00:00Z")
	}
	return t, nil
}

// ParseTime reads a time as flags have it: RFC 3339, or a date with or without a time of this machine's zone.
func ParseTime(text string) (t time.Time, ok bool) {
	for _, layout := range []string{time.RFC3339, "2006-01-02T15:04:05", "2006-01-02 15:04:05", "2006-01-02 15:04",
		"2006-01-02"} {
		if t, err := time.ParseInLocation(layout, text, time.Local); err == nil {
			return t, true
		}
	}
	return t, false
}

// verb is a command about one thing. The API and the console have routes of their own for it.
func verb(use, short, long, example string, flags []pipeline.Flag, least, most int,
	args string, run func(context.Context, *pipeline.Invocation) error) pipeline.Command {
	return pipeline.Command{Use: use, Short: short, Long: long, Example: example, Flags: flags,
		MinArgs: least, MaxArgs: most, Args: args, Run: run}
}

// cell is a time in a table.
func cell(t *time.Time) string {
	if t == nil {
		return "-"
	}
	return t.Format(time.RFC3339)
}

// invalid names a flag in an error about its value.
func invalid(err error) error {
	if _, ok := errors.AsType[*pawl.InvalidError](err); ok {
		return &pipeline.Error{Code: pipeline.ExitUsage, What: "cannot do this", Err: err, Next: "correct it"}
	}
	return err
}
