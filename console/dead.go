package console

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pawl-dev/pawl/api"
	"github.com/pawl-dev/pawl/internal/operate"
	"github.com/pawl-dev/pawl/internal/wire"
)

func deadPages() []page {
	return []page{
		{path: "/dead", file: "dead", nav: "Dead letters", key: "d", show: deadDesk},
		{path: "/dead/group", file: "group", show: deadGroup},
		{path: "/dead/export", show: deadExport},
		{path: "/dead/plan", method: http.MethodPost, file: "plan", show: deadPlan},
		{path: "/dead/run", method: http.MethodPost, show: deadRun},
	}
}

// deadFilters are the parameters that select dead letters, as GET /v1/dead takes them.
var deadFilters = []string{"topic", "key", "kind", "reason", "fingerprint", "search", "since", "until", "attr", "resolved"}

// labels are what a page calls them.
var labels = map[string]string{"topic": "Topic", "key": "Key", "kind": "Kind", "reason": "Reason", "fingerprint": "Cause",
	"search": "Text", "since": "Since", "until": "Until", "attr": "Facts", "resolved": "resolved"}

// filter are those of the address that select dead letters.
func (v *view) filter() url.Values {
	q := url.Values{}
	for name, values := range v.r.URL.Query() {
		if slices.Contains(deadFilters, name) && values[0] != "" {
			q[name] = values
		}
	}
	return q
}

// cell is an hour of a heat strip.
type cell struct {
	X, Level     int
	Hour         time.Time
	Count        int64
	Since, Until string
}

// strip are the last 24 hours of a group. The darkest hour is the worst of all groups.
func strip(hours []operate.HourCount, most int64) []cell {
	all := make([]cell, len(hours))
	for i, h := range hours {
		all[i] = cell{X: i * 10, Hour: h.Hour, Count: h.Count, Since: iso(h.Hour), Until: iso(h.Hour.Add(time.Hour))}
		if h.Count > 0 {
			all[i].Level = 1 + int(5*h.Count/max(most, 1))
		}
	}
	return all
}

// deadRow is a group with its strip.
type deadRow struct {
	*operate.DeadGroup
	Strip []cell
	Link  string
}

type deadData struct {
	Rows   []deadRow
	Topics []string
	Total  int64
	More   bool
}

func deadDesk(v *view) (any, error) {
	d := deadData{Topics: v.topicNames()}
	if len(d.Topics) > 0 && !v.Whole() && v.Query("topic") == "" { // nobody counts the others for them
		return nil, v.back(v.With("topic", d.Topics[0]))
	}
	groups, more, err := v.groups(v.filter(), 200)
	if err != nil {
		return nil, err
	}
	d.More = more
	var most int64
	for _, g := range groups {
		for _, h := range g.ByHour {
			most = max(most, h.Count)
		}
	}
	for i := range groups {
		g := &groups[i]
		d.Total += g.Count
		q := v.filter()
		q.Set("fingerprint", text(g.Fingerprint))
		d.Rows = append(d.Rows, deadRow{g, strip(g.ByHour, most), v.URL("/dead/group") + "?" + q.Encode()})
	}
	return d, nil
}

// groups counts dead letters by cause.
func (v *view) groups(filter url.Values, limit int) (groups []operate.DeadGroup, more bool, err error) {
	filter.Set("group_by", "fingerprint")
	filter.Set("limit", strconv.Itoa(limit))
	header, err := v.cached(&groups, filter, "/dead/groups")
	return groups, header.Get("Pawl-Cursor") != "", err
}

// tally is how often something is in the letters that were looked at.
type tally struct {
	Name  string
	Count int
}

type groupData struct {
	Group   *operate.DeadGroup
	Others  bool // there are more causes than were counted
	Strip   []cell
	Letters []operate.DeadLetter
	Sample  *operate.DeadLetter
	Why     *operate.Explanation
	Keys    []tally
	Attrs   []tally
	Looked  int
	More    bool
	Before  []operate.OperationState // replays of this cause
	Solved  []operate.DeadLetter
	Filter  url.Values
	Desk    string // the causes that match the rest of the filter
}

// lookedAt is how many letters of a group are read for its keys and facts.
const lookedAt = 200

func deadGroup(v *view) (any, error) {
	d := groupData{Filter: v.filter()}
	rest := v.filter()
	rest.Del("fingerprint")
	d.Desk = strings.TrimSuffix(v.URL("/dead")+"?"+rest.Encode(), "?")
	groups, more, err := v.groups(v.filter(), 1000)
	if err != nil || len(groups) == 0 {
		return d, err
	}
	d.Group, d.Others = &groups[0], more
	for i := range groups[1:] { // the filter has no fingerprint
		d.Group.Join(&groups[1+i])
	}
	var most int64
	for _, h := range d.Group.ByHour {
		most = max(most, h.Count)
	}
	d.Strip = strip(d.Group.ByHour, most)
	q := v.filter()
	q.Set("limit", strconv.Itoa(lookedAt))
	header, err := v.cached(&d.Letters, q, "/dead")
	if err != nil && !errors.Is(err, errPending) {
		return nil, err
	}
	d.More, d.Looked = header.Get("Pawl-Cursor") != "", len(d.Letters)
	d.count()
	d.Sample = new(operate.DeadLetter)
	if _, err = v.get(d.Sample, nil, "/dead/%s", d.Group.ID); err != nil {
		d.Sample = nil // it was replayed meanwhile
	} else if _, err = v.get(&d.Why, nil, "/messages/%s/explain", d.Group.ID); err != nil {
		d.Why = nil
	}
	return d, v.before(&d)
}

// count tells which keys and facts the letters that were looked at have.
func (d *groupData) count() {
	keys, facts := map[string]int{}, map[string]int{}
	for i := range d.Letters {
		l := &d.Letters[i]
		if l.Key != nil {
			keys[*l.Key]++
		}
		if n := len(l.Attempts); n > 0 {
			for name, value := range l.Attempts[n-1].Attrs {
				facts[name+"="+value]++
			}
		}
	}
	d.Keys, d.Attrs = tallies(keys), tallies(facts)
}

// tallies are the most frequent ones.
func tallies(counted map[string]int) []tally {
	var all []tally
	for _, name := range slices.Sorted(maps.Keys(counted)) {
		all = append(all, tally{name, counted[name]})
	}
	slices.SortStableFunc(all, func(a, b tally) int { return b.Count - a.Count })
	return all[:min(len(all), 8)]
}

// before finds what was done about this cause earlier.
func (v *view) before(d *groupData) error {
	fingerprint := d.Filter.Get("fingerprint")
	if fingerprint == "" || d.Filter.Get("resolved") == "true" {
		return nil
	}
	var all []operate.OperationState
	if _, err := v.cached(&all, nil, "/operations"); err != nil {
		return nil // a store without operations has none
	}
	for _, o := range all {
		if o.Filter.Fingerprint == fingerprint {
			d.Before = append(d.Before, o)
		}
	}
	q := url.Values{"fingerprint": {fingerprint}, "resolved": {"true"}, "limit": {"3"}}
	if _, err := v.cached(&d.Solved, q, "/dead"); !errors.Is(err, errPending) {
		return err
	}
	return nil
}

// Selects are the filters as hidden fields of the form of a plan.
func (d groupData) Selects() []input {
	var all []input
	for name, values := range d.Filter {
		switch kind := "s"; name {
		case "attr":
			for _, fact := range values {
				name, value, _ := strings.Cut(fact, "=")
				all = append(all, input{Name: "s:filter.attrs." + name, Value: value})
			}
		case "since", "until":
			all = append(all, input{Name: "s:filter." + name, Value: moment(values[0])})
		case "resolved":
			kind = "b"
			fallthrough
		default:
			all = append(all, input{Name: kind + ":filter." + name, Value: values[0]})
		}
	}
	return all
}

type planData struct {
	ID, Kind, Back string
	Plan           operate.Plan
	Rate           float64
	Seconds        float64
	To, Edit       string
	Command        string // that does the same
}

// deadPlan plans what a form asks for, and shows what it would do.
func deadPlan(v *view) (any, error) {
	d := planData{Kind: v.r.PostForm.Get("kind"), Back: local(v.r.PostForm.Get("back"), v.site.base)}
	kinds := []string{operate.KindReplay, operate.KindResolve, operate.KindReopen, operate.KindDiscard}
	if !slices.Contains(kinds, d.Kind) {
		return nil, &api.Problem{Status: http.StatusNotFound, Title: "not found", Detail: v.T("There is no such action.")}
	}
	body, err := v.fields()
	if err != nil {
		return nil, err
	}
	body["plan"] = true
	if d.Kind != operate.KindReplay {
		for _, name := range []string{"to", "edit", "keep_attempts", "rate"} {
			delete(body, name)
		}
	}
	if body["filter"] == nil && body["ids"] == nil {
		body["all"] = true
	}
	var answer struct {
		PlanID string `json:"plan_id"`
		operate.Plan
	}
	if err := v.post(&answer, body, "/dead/%s", d.Kind); err != nil {
		return nil, err
	}
	d.ID, d.Plan = answer.PlanID, answer.Plan
	d.To, d.Edit = v.r.PostForm.Get("s:to"), v.r.PostForm.Get("s:edit")
	if rate, ok := body["rate"].(json.Number); ok {
		d.Rate, _ = rate.Float64() // it was read as a number
	}
	d.Command = planCommand(d.Kind, body)
	if d.Kind == operate.KindReplay && d.Rate == 0 {
		d.Rate = 100
	}
	if d.Rate > 0 {
		d.Seconds = float64(d.Plan.Count) / d.Rate
	}
	return d, nil
}

// planCommand is the command that does what a request for a plan says.
func planCommand(kind string, body map[string]any) string {
	words := []string{"pawl", "dead", kind}
	flag := func(name string, value any) { words = append(words, name, operate.ShellWord(fmt.Sprint(value))) }
	filter, _ := body["filter"].(map[string]any)
	for _, name := range deadFilters {
		if value, ok := filter[name]; ok && name == "resolved" {
			words = append(words, "--resolved")
		} else if ok {
			flag("--"+name, value)
		}
	}
	attrs, _ := filter["attrs"].(map[string]any)
	for _, name := range slices.Sorted(maps.Keys(attrs)) {
		flag("--attr", fmt.Sprint(name, "=", attrs[name]))
	}
	for _, name := range []string{"rate", "to", "edit"} {
		if value, ok := body[name]; ok {
			flag("--"+name, value)
		}
	}
	if body["keep_attempts"] == true {
		words = append(words, "--keep-attempts")
	}
	if note, ok := body["reason"]; ok && kind == operate.KindResolve {
		flag("--note", note)
	}
	if body["all"] == true {
		words = append(words, "--all")
	}
	ids, _ := body["ids"].([]string)
	return strings.TrimSpace(strings.Join(words, " ") + " " + operate.Operands(ids...))
}

// deadRun carries out a plan as it was shown.
func deadRun(v *view) (any, error) {
	var answer struct {
		OperationID string `json:"operation_id"`
	}
	kind := v.r.PostForm.Get("kind")
	if err := v.post(&answer, map[string]string{"plan_id": v.r.PostForm.Get("plan")}, "/dead/%s", kind); err != nil {
		return nil, err
	}
	return nil, v.back(v.URL("/operations/%s", answer.OperationID))
}

// exportMost is how many dead letters the console exports; the command exports all.
const exportMost = 10_000

// exportStall is how long a browser may take none of an export.
const exportStall = time.Minute

// deadExport gives the dead letters that match, one a line, complete, as they are read.
func deadExport(v *view) (any, error) {
	out := json.NewEncoder(v.w)
	out.SetEscapeHTML(false)
	control := http.NewResponseController(v.w)
	written := false
	begin := func() {
		written = true
		v.w.Header().Set("Content-Type", "application/x-ndjson")
		v.w.Header().Set("Content-Disposition", `attachment; filename="dead-letters.jsonl"`)
	}
	for l, err := range v.site.api.Letters(v.r.Context(), v.who, v.filter(), exportMost) {
		switch {
		case err != nil && !written:
			return nil, err
		case err != nil:
			panic(http.ErrAbortHandler) // the browser sees that it is not whole
		case !written:
			begin()
		}
		_ = control.SetWriteDeadline(time.Now().Add(exportStall)) // where there is none, it does without
		if out.Encode(l) != nil {
			return nil, errAnswered
		}
	}
	if !written {
		begin()
	}
	return nil, errAnswered
}

// moment writes a time, or how long ago it is, as a time.
func moment(text string) string {
	if ago, err := wire.ParseDuration(text); err == nil {
		return iso(time.Now().Add(-ago))
	}
	return text
}
