package cli

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/pawl-dev/pawl/internal/operate"
	"github.com/pawl-dev/pawl/internal/terminal"
	"github.com/pawl-dev/pawl/store"
)

// Commands that a server carries out for somebody: those that are marked as looking or changing, over the store of
// the server, with what they print as an answer.

const (
	noteEffect  = "effect"
	noteChoices = "choices"
)

// looks marks a command that the API and the console offer, and that changes nothing.
func looks(c *cobra.Command) *cobra.Command { return withEffect(c, "looks") }

// changes marks a command that they offer, and that changes something.
func changes(c *cobra.Command) *cobra.Command { return withEffect(c, "changes") }

func withEffect(c *cobra.Command, effect string) *cobra.Command {
	c.Annotations = map[string]string{noteEffect: effect}
	return c
}

// inside is where a command is carried out for somebody else than the user of this process.
type inside struct {
	store  store.Store
	who    string
	answer operate.CommandAnswer
}

func (i *inside) begin(columns []string) {
	i.answer.Columns, i.answer.Rows, i.answer.Data = columns, [][]string{}, []any{}
}

// mostRows bounds a table.
const mostRows = 10_000

var errRows = fmt.Errorf("there are more than %d rows", mostRows)

func (i *inside) add(v any, cells []string) error {
	if len(i.answer.Rows) == mostRows {
		return errRows
	}
	data, _ := i.answer.Data.([]any)
	i.answer.Rows, i.answer.Data = append(i.answer.Rows, cells), append(data, v)
	return nil
}

// offered are the commands that the API and the console offer.
func (s *session) offered() []operate.Command {
	var all []operate.Command
	var walk func(c *cobra.Command, path string)
	walk = func(c *cobra.Command, path string) {
		for _, sub := range c.Commands() {
			name := strings.TrimSpace(path + " " + sub.Name())
			if effect := sub.Annotations[noteEffect]; effect != "" {
				all = append(all, operate.Command{
					Name: name, Use: "pawl " + strings.TrimSpace(path+" "+sub.Use), Summary: sub.Short, Help: sub.Long,
					Changes: effect == "changes", Flags: formFlags(sub.LocalNonPersistentFlags()),
					Run: func(ctx context.Context, call operate.CommandCall) operate.CommandAnswer {
						return s.carryOutFor(ctx, name, call)
					},
				})
			}
			walk(sub, name)
		}
	}
	walk((&session{System: s.System}).root(), "")
	return all
}

func formFlags(fs *pflag.FlagSet) []operate.CommandFlag {
	all := []operate.CommandFlag{}
	fs.VisitAll(func(f *pflag.Flag) {
		if f.Name == "help" {
			return
		}
		form := operate.CommandFlag{Name: f.Name, Help: strings.ReplaceAll(f.Usage, "`", ""), Type: "text",
			Default: f.DefValue, Choices: f.Annotations[noteChoices]}
		switch f.Value.Type() {
		case "bool":
			form.Type = "bool"
		case "stringArray", "stringSlice":
			form.Type, form.Default = "texts", ""
		}
		all = append(all, form)
	})
	return all
}

// carryOutFor carries a command out as if the one who calls had typed it.
func (s *session) carryOutFor(ctx context.Context, name string, call operate.CommandCall) operate.CommandAnswer {
	var out, remarks bytes.Buffer
	r := newSession(s.version, System{In: strings.NewReader(""), Out: &out, Err: &remarks, Getenv: s.Getenv})
	r.inside = &inside{store: call.Store, who: call.Who}
	root := r.root()
	root.SetArgs(append(strings.Fields(name), argsOf(&call, s.configPath)...))
	root.SetOut(io.Discard)
	root.SetErr(io.Discard)
	err := r.allowed(root, name, &call)
	if err == nil {
		err = root.ExecuteContext(ctx)
	}
	r.opened = nil // it is the server's
	err = errors.Join(err, r.close())
	a := r.inside.answer
	a.Text = strings.TrimRight(terminal.Clean(r.redactor.Redact(out.String()+remarks.String())), "\n")
	if err != nil {
		r.explainTo(&a, err)
	}
	return a
}

// argsOf is a call as words of the command line.
func argsOf(call *operate.CommandCall, configPath string) []string {
	words := []string{"--yes"}
	if call.DryRun {
		words = append(words, "--dry-run")
	}
	if configPath != "" {
		words = append(words, "--config="+configPath)
	}
	for flag, values := range call.Flags {
		for _, v := range values {
			words = append(words, "--"+flag+"="+v)
		}
	}
	return append(append(words, "--"), call.Args...)
}

// allowed refuses what is not offered, and flags that are not the command's own.
func (s *session) allowed(root *cobra.Command, name string, call *operate.CommandCall) error {
	c, _, err := root.Find(strings.Fields(name))
	if err != nil || c.Annotations[noteEffect] == "" {
		return usage("GET /v1/commands lists those that are offered", "%q is for the command line only", name)
	}
	known := formFlags(c.LocalNonPersistentFlags())
	for flag := range call.Flags {
		if !slices.ContainsFunc(known, func(f operate.CommandFlag) bool { return f.Name == flag }) {
			return usage("leave it out", "the command has no flag --%s here", flag)
		}
	}
	return nil
}

// explainTo puts an error into an answer.
func (s *session) explainTo(a *operate.CommandAnswer, err error) {
	a.Code, a.Next = classify(err)
	a.Error = err.Error()
	if p, ok := errors.AsType[*problem](err); ok {
		a.Code, a.Next = cmp.Or(p.code, a.Code), cmp.Or(p.next, a.Next)
	}
	a.Error, a.Next = s.redactor.Redact(a.Error), s.redactor.Redact(a.Next)
}
