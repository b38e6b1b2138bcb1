package console

import (
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/pawl-dev/pawl/api"
	"github.com/pawl-dev/pawl/internal/operate"
	"github.com/pawl-dev/pawl/internal/wire"
)

// action is a button that asks for a reason and then does what a route of the API does. A template makes it:
//
//	{{template "action" ($.Act "Pause" "operator" "/v1/topics/%s/pause" .Topic)}}
type action struct {
	*view
	Label, Role, Path string
	Danger            bool
	Back              string
	Fields            []input
	Sure              string // what has to be typed
	Plan              bool   // it can be looked at before it is done
}

// input is a field of a form. Its name has a letter for its type before a colon: s text, n number, b yes or no,
// d a duration such as 10m that is sent as seconds, t a time or how long ago it is, j JSON, l texts and h headers, one
// a line, p a name in the path. Dots go into objects: s:filter.topic.
type input struct {
	Name, Label, Value, Hint string
	Kind                     string // text, hidden, area, check
	Checked                  bool
}

// Act makes an action of a route of the API, for those who have a role.
func (v *view) Act(label, role, path string, names ...any) *action {
	return &action{view: v, Label: label, Role: role, Path: fill(path, names...), Back: v.Self()}
}

// Field adds a line of text to the form.
func (a *action) Field(name, label, value, hint string) *action {
	return a.add("text", name, label, value, hint)
}

// Area adds several lines of text.
func (a *action) Area(name, label, value, hint string) *action {
	return a.add("area", name, label, value, hint)
}

// Check adds a yes or no.
func (a *action) Check(name, label string, checked bool) *action {
	a.add("check", name, label, "true", "").Fields[len(a.Fields)-1].Checked = checked
	return a
}

// WithPlan adds a button that says what would be done.
func (a *action) WithPlan() *action {
	a.Plan = true
	return a
}

// Hidden adds what the page knows.
func (a *action) Hidden(name, value string) *action { return a.add("hidden", name, "", value, "") }

// To says where to go on when it is done.
func (a *action) To(path string, names ...any) *action {
	a.Back = a.URL(path, names...)
	return a
}

// Dangerous makes the person type something first.
func (a *action) Dangerous(sure string) *action {
	a.Danger, a.Sure = true, sure
	return a
}

func (a *action) add(kind, name, label, value, hint string) *action {
	a.Fields = append(a.Fields, input{Name: name, Label: label, Value: value, Hint: hint, Kind: kind})
	return a
}

// Allowed reports whether the person may do it.
func (a *action) Allowed() bool { return a.May(a.Role) }

// Command is the command that does the same.
func (a *action) Command() string {
	r, names := routeOf(a.Path)
	if r == nil || strings.HasPrefix(r.Command, "(") {
		return ""
	}
	for i, name := range names {
		if asked, ok := strings.CutPrefix(name, "%7B"); ok { // by the form
			names[i] = strings.ToUpper(strings.TrimSuffix(asked, "%7D"))
		} else if plain, err := url.PathUnescape(name); err == nil {
			names[i] = plain
		}
	}
	return strings.TrimSpace("pawl " + r.Command + " " + operate.Operands(names...))
}

// routeOf finds the route of a path by which something is done, and the names in it.
func routeOf(path string) (*api.Route, []string) {
	parts := strings.Split(path, "/")
	for _, r := range api.Routes() {
		pattern := strings.Split(r.Path, "/")
		if r.Method != http.MethodPost || strings.HasPrefix(r.Console, "(") || len(pattern) != len(parts) {
			continue
		}
		var names []string
		fits := true
		for i := range pattern {
			if strings.HasPrefix(pattern[i], "{") {
				names = append(names, parts[i])
			} else if pattern[i] != parts[i] {
				fits = false
			}
		}
		if fits {
			return &r, names
		}
	}
	return nil, nil
}

// act does what a form asks for: POST /do/v1/… with the fields of the route.
func act(v *view) (any, error) {
	path := strings.TrimPrefix(v.r.URL.EscapedPath(), v.site.base+"/do")
	route, _ := routeOf(path)
	if route == nil {
		return nil, &api.Problem{Status: http.StatusNotFound, Title: "not found", Detail: v.T("There is no such action.")}
	}
	if sure := v.r.PostForm.Get("sure"); sure != v.r.PostForm.Get("typed") {
		return nil, &api.Problem{Status: http.StatusUnprocessableEntity, Title: "invalid request",
			Detail: v.T("Type %s to go on.", sure)}
	}
	path, err := fillIn(path, v.r.PostForm)
	if err != nil {
		return nil, err
	}
	body, err := v.fields()
	if err != nil {
		return nil, err
	}
	if text, ok := body["body"].(string); ok && v.r.PostForm.Get("must") == "json" && !json.Valid([]byte(text)) {
		return nil, &api.Problem{Status: http.StatusUnprocessableEntity, Title: "invalid request",
			Detail: v.T("The body was JSON, and is none any more.")}
	}
	var answer json.RawMessage
	if err := v.send(&answer, body, path); err != nil {
		return nil, err
	}
	if body["dry_run"] == true {
		var d triedData
		err := json.Unmarshal(answer, &d)
		return d, err
	}
	v.say(v.T("Done: %s", route.Command))
	return nil, v.back(v.r.PostForm.Get("back"))
}

// triedData is what a backfill would send.
type triedData struct{ operate.Backfill }

// Shown are the first ticks, and More how many others there are.
func (d triedData) Shown() []string { return d.Ticks[:min(len(d.Ticks), 20)] }
func (d triedData) More() int       { return len(d.Ticks) - len(d.Shown()) }

// fillIn puts the names that a form asks for into a path: p:name is {name}.
func fillIn(path string, form url.Values) (string, error) {
	for field := range form {
		name, ok := strings.CutPrefix(field, "p:")
		if !ok {
			continue
		}
		value := strings.TrimSpace(form.Get(field))
		if value == "" || value == "." || value == ".." {
			return "", &api.Problem{Status: http.StatusUnprocessableEntity, Title: "invalid request",
				Detail: name + " is missing", Fields: []wire.Fault{{Field: name, Why: "is missing"}}}
		}
		path = strings.ReplaceAll(path, "%7B"+name+"%7D", url.PathEscape(value))
	}
	return path, nil
}

// fields are those of a form as the API takes them. Empty ones are left out.
func (v *view) fields() (map[string]any, error) {
	body := map[string]any{}
	var faults []wire.Fault
	for name, values := range v.r.PostForm {
		kind, path, typed := strings.Cut(name, ":")
		text := strings.TrimSpace(strings.Join(values, "\n"))
		switch kind { // as it was written; forms write lines with \r\n
		case "s":
			text = strings.ReplaceAll(values[0], "\r\n", "\n")
		case "l":
			text = strings.ReplaceAll(strings.Join(values, "\n"), "\r\n", "\n")
		}
		if !typed || text == "" || kind == "p" {
			continue
		}
		value, why := fieldValue(kind, text)
		if why != "" {
			faults = append(faults, wire.Fault{Field: path, Why: why})
			continue
		}
		into := body
		parts := strings.Split(path, ".")
		if fact, ok := strings.CutPrefix(path, "filter.attrs."); ok { // its name may have dots
			parts = []string{"filter", "attrs", fact}
		}
		for _, p := range parts[:len(parts)-1] {
			next, ok := into[p].(map[string]any)
			if !ok {
				next = map[string]any{}
				into[p] = next
			}
			into = next
		}
		into[parts[len(parts)-1]] = value
	}
	if len(faults) > 0 {
		slices.SortFunc(faults, func(a, b wire.Fault) int { return strings.Compare(a.Field, b.Field) })
		return nil, &api.Problem{Status: http.StatusUnprocessableEntity, Title: "invalid request",
			Detail: faults[0].Field + " " + faults[0].Why, Fields: faults}
	}
	return body, nil
}

func fieldValue(kind, text string) (value any, why string) {
	switch kind {
	case "s":
		return text, ""
	case "w":
		return lines(text), ""
	case "b":
		return text == "true", ""
	case "l":
		return slices.DeleteFunc(strings.Split(text, "\n"), func(line string) bool { return line == "" }), ""
	case "h":
		headers := map[string]string{}
		for line := range strings.Lines(text) {
			if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
				headers[strings.TrimSpace(name)] = strings.TrimSpace(value)
			} else if strings.TrimSpace(line) != "" {
				return nil, "has a line without a colon"
			}
		}
		return headers, ""
	case "t":
		return moment(text), ""
	case "j":
		if !json.Valid([]byte(text)) {
			return nil, `is no JSON; a text has quotes: "red"`
		}
		return json.RawMessage(text), ""
	case "n":
		// JSON has no +5, 05 and NaN.
		if _, err := strconv.ParseFloat(text, 64); err != nil || !json.Valid([]byte(text)) {
			return nil, "is no number such as 10"
		}
		return json.Number(text), ""
	case "d":
		d, err := wire.ParseDuration(text)
		if err != nil {
			return nil, "is no duration such as 90s, 10m, 2h or 1d, up to ten years"
		}
		return d.Seconds(), ""
	default:
		return nil, "is of no type"
	}
}
