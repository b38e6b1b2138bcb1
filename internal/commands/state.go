package commands

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/pawl-dev/pawl/internal/operate"
	"github.com/pawl-dev/pawl/pipeline"
	"github.com/pawl-dev/pawl/statesync"
	"github.com/pawl-dev/pawl/store"
)

func state(check func(topic string, value []byte) error) pipeline.Command {
	version := pipeline.Flag{Name: "if-version", Type: pipeline.Int,
		Doc: "`VERSION` that is replaced; 0 is none, another one is exit code 5"}
	schema := pipeline.Flag{Name: "schema", Doc: "`NAME` of the form of the value"}
	topic := func(use, short, long, example string, least, most int,
		do func(context.Context, *onState) error, flags ...pipeline.Flag) pipeline.Command {
		_, args, _ := strings.Cut(use, " ")
		return verb(use, short, long, "  pawl state "+example, flags, least, most, args,
			func(ctx context.Context, in *pipeline.Invocation) error { return withState(ctx, in, check, do) })
	}
	return pipeline.Command{
		Use: "state", Short: "Look at and change values that processes share",
		Long: `Values by topic and key in the state of the store, as package statesync keeps them: typed,
versioned, with their history. A value is JSON.`,
		Commands: []pipeline.Command{
			topic("ls TOPIC [PREFIX]", "List values",
				"Lists the values of a topic whose key begins with PREFIX.", "ls flags", 1, 2, stateLs),
			topic("get TOPIC KEY", "Show a value",
				"Shows a value with its version; exit code 6 if there is none.", "get flags beta", 2, 2, stateGet),
			topic("put TOPIC KEY VALUE", "Write a value",
				`Writes a value, which is JSON. With --if-version it changes nothing if somebody else has
changed the value since.`,
				`put flags beta '{"on":true}'`, 3, 3, statePut, version, schema),
			topic("rm TOPIC KEY", "Remove a value; its history stays",
				"Removes a value. Its versions go on when it is written again.", "rm flags beta", 2, 2, stateRm,
				version),
			topic("watch TOPIC [KEY]", "Print values, and each change of one",
				`Prints the present values, then each change, as lines, until it is stopped: all of a topic,
or one value.`, "watch flags   # runs until it is stopped", 1, 2, stateWatch),
			topic("history TOPIC KEY", "List the versions of a value, the newest first",
				"Lists the versions of a value, the newest first: a thousand at least.", "history flags beta", 2, 2,
				stateHistory),
		},
	}
}

// onState is what a verb of the state works with.
type onState struct {
	*pipeline.Invocation
	topic   *statesync.Topic[json.RawMessage]
	store   store.Store
	key     string
	version int64
}

func withState(ctx context.Context, in *pipeline.Invocation, check func(topic string, value []byte) error,
	do func(context.Context, *onState) error) error {
	o := &onState{Invocation: in, version: statesync.AnyVersion}
	c := statesync.Config{Writer: in.Who, Logger: in.Logger}
	if len(in.Args) > 1 {
		o.key = in.Args[1]
	}
	if len(in.Args) == 3 {
		c.Schema = in.Flags.Text("schema")
		if !json.Valid([]byte(in.Args[2])) {
			return usage(fmt.Sprintf("%q is no JSON", in.Args[2]), `a text is written with quotes: '"red"'`)
		}
		if err := check(in.Args[0], []byte(in.Args[2])); err != nil {
			return usage(fmt.Sprintf("the daemons of the store would not take the value: %v", err),
				"docs/configuration.md has the values of the topics limits and policy")
		}
	}
	if in.Flags.Changed("if-version") {
		if o.version = in.Flags.Int("if-version"); o.version < 0 {
			return usage(fmt.Sprintf("--if-version is %d", o.version), "it is a version, or 0 for none")
		}
	}
	var err error
	if o.store, err = in.Open(ctx, "", len(in.Args) < 3); err != nil {
		return err
	}
	if o.topic, err = statesync.New[json.RawMessage](o.store, in.Args[0], c); err != nil {
		return invalid(err)
	}
	return invalid(do(ctx, o))
}

func stateCells(i *operate.StateValue) []string {
	value := string(i.Value)
	if i.Deleted {
		value = "(removed)"
	}
	return []string{i.Key, strconv.FormatInt(i.Version, 10), i.Time.Format(time.RFC3339), i.Writer, value}
}

func (o *onState) rows(all []statesync.Value[json.RawMessage]) error {
	rows := operate.FormStates(all)
	return o.Rows([]string{"KEY", ">VERSION", "TIME", "WRITER", "VALUE"}, rows,
		func(n int) []string { return stateCells(&rows[n]) })
}

func stateLs(ctx context.Context, o *onState) error {
	all, err := o.topic.List(ctx, o.key)
	if err != nil {
		return err
	}
	return o.rows(all)
}

func stateHistory(ctx context.Context, o *onState) error {
	all, err := o.topic.History(ctx, o.key)
	if err != nil {
		return err
	}
	return o.rows(all)
}

func (o *onState) show(v statesync.Value[json.RawMessage]) error {
	i := operate.FormState(&v)
	return o.Print(i, "%s %s\nversion %d by %s at %s\n", i.Key, cmp.Or(string(i.Value), "(removed)"), i.Version,
		i.Writer, i.Time.Format(time.RFC3339))
}

func stateGet(ctx context.Context, o *onState) error {
	v, err := o.topic.Get(ctx, o.key)
	if err != nil {
		return err
	}
	return o.show(v)
}

func statePut(ctx context.Context, o *onState) error {
	return o.change(ctx, "put", func() (statesync.Value[json.RawMessage], error) {
		return o.topic.Put(ctx, o.key, json.RawMessage(o.Args[2]), o.version)
	})
}

func stateRm(ctx context.Context, o *onState) error {
	return o.change(ctx, "rm", func() (statesync.Value[json.RawMessage], error) {
		return o.topic.Delete(ctx, o.key, o.version)
	})
}

// change writes, on record.
func (o *onState) change(ctx context.Context, verb string,
	do func() (statesync.Value[json.RawMessage], error)) error {
	if o.DryRun {
		note(o.Invocation, "would %s %s %s", verb, o.Args[0], o.key)
		return nil
	}
	v, err := do()
	if err != nil {
		return err
	}
	what := fmt.Sprintf("version %d", v.Version)
	if err := o.Audit(ctx, o.store, "state "+verb, o.Args[0]+"/"+o.key, 1, what); err != nil {
		return err
	}
	return o.show(v)
}

func stateWatch(ctx context.Context, o *onState) error {
	for v := range o.topic.Watch(ctx, o.key) {
		if len(o.Args) > 1 && v.Key != o.key {
			continue // it only begins like it
		}
		i := operate.FormState(&v)
		line, err := json.Marshal(i)
		if o.Output == "table" {
			line = fmt.Appendf(nil, "%s %d %s", i.Key, i.Version, cmp.Or(string(i.Value), "(removed)"))
		}
		if err == nil {
			_, err = io.WriteString(o.Stdout, string(line)+"\n")
		}
		if err != nil {
			return err
		}
	}
	return nil
}
