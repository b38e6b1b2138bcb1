package console

import (
	"html/template"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/pawl-dev/pawl/api"
	"github.com/pawl-dev/pawl/internal/operate"
)

// Forms of the commands that the API offers: of pipelines and a Kafka cluster. Forms of its routes are /do/v1/….

func commandPages() []page {
	return []page{
		{path: "/commands/{command}", method: http.MethodPost, show: sendCommand},
		{path: "/runs/{id}", file: "run", show: runPage},
		{path: "/do/", method: http.MethodPost, file: "tried", show: act},
	}
}

// run is a command that was carried out, as the API shows it.
type run struct {
	ID        string              `json:"id"`
	Command   string              `json:"command"`
	Changes   bool                `json:"changes"`
	Who       string              `json:"who"`
	Args      []string            `json:"args"`
	Flags     map[string][]string `json:"flags"`
	DryRun    bool                `json:"dry_run"`
	StartedAt time.Time           `json:"started_at"`
	EndedAt   *time.Time          `json:"ended_at"`
	operate.CommandAnswer
}

// Path is the command in an address.
func (r run) Path() string { return strings.ReplaceAll(r.Command, " ", ".") }

// sendCommand carries out the command of a form, and goes on to what became of it.
func sendCommand(v *view) (any, error) {
	body, err := v.fields()
	if err != nil {
		return nil, err
	}
	var r run
	if err := v.post(&r, body, "/commands/%s", v.r.PathValue("command")); err != nil {
		return nil, err
	}
	to := v.URL("/runs/%s", r.ID)
	if back := v.r.PostForm.Get("back"); back != "" && !r.DryRun && r.EndedAt != nil && r.Code == 0 {
		v.say(v.T("Done: %s", r.Command))
		to = back
	}
	return nil, v.back(to)
}

type runData struct {
	run
	Answer answer
	Status *answer // what it has come to, while it goes on
}

func runPage(v *view) (any, error) {
	var r run
	_, err := v.get(&r, nil, "/runs/%s", v.r.PathValue("id"))
	d := runData{run: r, Answer: answer{V: v, A: &r.CommandAnswer}}
	if r.EndedAt == nil && r.Command == "project rebuild" {
		if now, err := v.look("project status", r.Args); err == nil {
			d.Status = &answer{V: v, A: &now.CommandAnswer}
		}
	}
	return d, err
}

// answer is what a command printed, with the commands that can be carried out on a row by what its first cell says.
type answer struct {
	V   *view
	A   *operate.CommandAnswer
	Row []*commandForm
}

// rebuild is how far a command that goes on in the background is.
type rebuild struct{ Done, Total int64 }

// Rebuild is that of the projection that the answer is about, nil: none.
func (a answer) Rebuild() *rebuild {
	data, _ := a.A.Data.(map[string]any)
	now, _ := data["rebuild"].(map[string]any)
	done, _ := now["done"].(float64)
	total, _ := now["total"].(float64)
	if now == nil {
		return nil
	}
	return &rebuild{int64(done), int64(total)}
}

// look carries out a command that looks.
func (v *view) look(name string, args []string, flags ...string) (*run, error) {
	var r run
	_, err := v.get(&r, url.Values{"arg": args, "flag": flags}, "/commands/%s", strings.ReplaceAll(name, " ", "."))
	return &r, err
}

// commands are those that begin with a word.
func (v *view) commands(noun string) ([]operate.Command, error) {
	var all, found []operate.Command
	_, err := v.get(&all, url.Values{"limit": {"1000"}}, "/commands")
	for i := range all {
		if strings.HasPrefix(all[i].Name, noun+" ") {
			found = append(found, all[i])
		}
	}
	return found, err
}

// commandForm asks for the arguments and flags of a command.
type commandForm struct {
	*operate.Command

	V     *view
	Label string
	Open  bool
	Back  string // where it goes on when it is done; empty: to what became of it
	Args  []formArg
	Flags []formFlag
}

type formArg struct {
	Name, Value string
	Known, Must bool
}

type formFlag struct {
	operate.CommandFlag

	Known bool
	Value string
}

// form makes one. What is known of arguments, by their names in the usage, and of flags is not asked for.
func (v *view) form(c *operate.Command, known map[string]string) *commandForm {
	f := &commandForm{Command: c, V: v, Label: v.Sentence(c.Verb()), Open: v.Query("do") == c.Name}
	if words := strings.TrimPrefix(c.Use, "pawl "+c.Name); words != "" {
		for word := range strings.FieldsSeq(words) {
			name := strings.Trim(word, "[]…")
			value, ok := known[name]
			f.Args = append(f.Args, formArg{Name: name, Value: value, Known: ok, Must: !strings.HasPrefix(word, "[")})
		}
	}
	for _, flag := range c.Flags {
		value, ok := known["--"+flag.Name]
		f.Flags = append(f.Flags, formFlag{flag, ok, value})
	}
	if i := f.rowArg(); i >= 0 && f.Open {
		f.Args[i].Value = v.Query("id")
	}
	return f
}

// rowArg is the place of the first argument that is not known; -1: there is none.
func (f *commandForm) rowArg() int {
	for i := range f.Args {
		if !f.Args[i].Known {
			return i
		}
	}
	return -1
}

// Anchor is where the form is in its page, and Path the command in an address.
func (f *commandForm) Anchor() string { return "do-" + f.Path() }

// Path is the command in an address.
func (f *commandForm) Path() string { return strings.ReplaceAll(f.Name, " ", ".") }

// Role is who may carry it out.
func (f *commandForm) Role() string {
	switch {
	case f.Settings():
		return api.Admin
	case f.Changes:
		return api.Operator
	default:
		return api.Viewer
	}
}

// Allowed reports whether the person may carry it out.
func (f *commandForm) Allowed() bool { return !f.Changes || f.V.May(f.Role()) }

// commandFormats are what templates of commands, and of what is beside the store, write with.
var commandFormats = template.FuncMap{
	"limit": limitNow, "decided": decided, "early": early, "label": func(filter string) string { return labels[filter] },
	"exportMost": func() int64 { return exportMost },
	"hasPrefix":  strings.HasPrefix, "trimPrefix": strings.TrimPrefix, "clip": clip,
	"gone": func(alive *bool) bool { return alive != nil && !*alive },
}

// clip is the beginning of a text.
func clip(text string) string {
	const most = 300
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "") + "…"
}

// lines are those of a text that are not empty.
func lines(text string) []string {
	return slices.DeleteFunc(strings.Split(text, "\n"), func(s string) bool { return strings.TrimSpace(s) == "" })
}
