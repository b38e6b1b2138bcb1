package console

import (
	"cmp"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/pawl-dev/pawl/api"
	"github.com/pawl-dev/pawl/internal/operate"
)

func pipelinePages() []page {
	return []page{
		{path: "/pipelines", file: "pipelines", nav: "Pipelines", key: "i", show: pipelineList},
		{path: "/pipelines/{name}", file: "pipeline", show: pipelinePage},
		{path: "/clusters/{kind}", file: "kafka", show: kafkaPage},
	}
}

type pipelinesData struct {
	Pipelines []operate.Pipeline
	Kafka     bool // the store is a cluster
	Cursor    string
}

func pipelineList(v *view) (any, error) {
	var d pipelinesData
	var err error
	if d.Cursor, err = v.get(&d.Pipelines, v.query("cursor"), "/pipelines"); err != nil {
		return nil, err
	}
	if v.Query("cursor") == "" {
		d.Pipelines = append(d.Pipelines, byCommand(v)...)
	}
	_, err = v.look("kafka health", nil)
	d.Kafka = err == nil
	return d, nil
}

// panel is what a command shows on the page of a pipeline.
type panel struct {
	Name, Title string
	Answer      answer
	Rows        int    // that there are; the answer has mostRows of them at most
	Why         string // it cannot be shown
}

// mostRows is how much of a list a page shows.
const mostRows = 100

type pipelineData struct {
	operate.Pipeline
	topicsData
	Workers  []servant
	Panels   []panel
	Forms    []*commandForm
	Runbooks string
	Pages    *float64 // that a crawl stores a second
}

func pipelinePage(v *view) (any, error) {
	name := v.r.PathValue("name")
	var all []operate.Pipeline
	if _, err := v.get(&all, nil, "/pipelines"); err != nil {
		return nil, err
	}
	all = append(all, byCommand(v)...)
	if i := slices.IndexFunc(all, func(p operate.Pipeline) bool { return p.Name == name }); i >= 0 {
		return v.pipeline(&all[i])
	}
	return nil, &api.Problem{Status: http.StatusNotFound, Title: "not found", Detail: v.T("No daemon has run it on this store.")}
}

// byCommand are the runs of pawl crawl and pawl convert on the store. No daemon records them: they have no state.
func byCommand(v *view) (all []operate.Pipeline) {
	topics, err := v.topics()
	if err != nil {
		return nil // the store has no topics to tell of
	}
	for _, kind := range []string{"convert", "crawl"} {
		p := operate.Pipeline{Name: kind, Kind: kind}
		for i := range topics.Rows {
			t := &topics.Rows[i].Topic
			if !strings.HasPrefix(t.Topic, kind+".") {
				continue
			}
			p.Topics = append(p.Topics, t.Topic)
			p.Waiting, p.Leased, p.Dead = p.Waiting+t.Waiting+t.Delayed, p.Leased+t.Leased, p.Dead+t.Dead
			if t.OldestWaitingSeconds != nil {
				p.OldestWaitingSeconds = max(p.OldestWaitingSeconds, *t.OldestWaitingSeconds)
			}
			if at := t.LastAckAt; at != nil && (p.LastSuccessAt == nil || at.After(*p.LastSuccessAt)) {
				p.LastSuccessAt = at
			}
		}
		runs := &run{}
		if kind == "convert" { // one that has failed nowhere leaves no topic
			if runs, err = v.look("convert runs", nil); err != nil {
				continue
			}
		}
		if len(p.Topics)+len(runs.Rows) > 0 {
			all = append(all, p)
		}
	}
	return all
}

func (v *view) pipeline(p *operate.Pipeline) (any, error) {
	d := pipelineData{Pipeline: *p, Runbooks: runbooksOf[p.Kind]}
	all, err := v.topics()
	if err != nil {
		return nil, err
	}
	for i := range all.Rows {
		if slices.Contains(p.Topics, all.Rows[i].Topic.Topic) {
			d.Rows = append(d.Rows, all.Rows[i])
		}
	}
	if r := ratesOf(v.site.figures.of(p.Name+".store", false)); p.Kind == "crawl" && r.Known {
		d.Pages = &r.Appended
	}
	d.Workers = servants(workersOf(v), p.Topics...)
	commands, err := v.commands(p.Kind)
	if err != nil {
		return nil, err
	}
	known := map[string]string{}
	if p.State != "" {
		known = map[string]string{"NAME": p.Name, "--pipeline": p.Name}
	}
	var rows []*commandForm // that are about a row of a list
	for i := range commands {
		f := v.form(&commands[i], known)
		f.Label = v.Sentence(strings.TrimPrefix(f.Name, p.Kind+" "))
		if f.Changes {
			f.Back = v.URL("/pipelines/%s", p.Name)
		}
		if f.rowArg() >= 0 && f.Args[f.rowArg()].Name == "ID" && f.Allowed() {
			rows = append(rows, f)
		}
		if f.shows() {
			d.Panels = append(d.Panels, v.panel(f))
		} else {
			d.Forms = append(d.Forms, f)
		}
	}
	slices.SortStableFunc(d.Panels, func(a, b panel) int { return cmp.Compare(a.rank(), b.rank()) })
	for i := range d.Panels {
		if strings.HasSuffix(d.Panels[i].Name, "rules ls") && v.May(api.Operator) {
			d.Panels[i].Answer.Row = rows
		}
	}
	return d, nil
}

// runbooksOf is the beginning of the names of the pages about a kind of pipeline.
var runbooksOf = map[string]string{
	"crawl": "PawlCrawl", "forward": "PawlForward", "project": "PawlOutbox", "wecom": "PawlWecom",
}

// shown are the verbs of commands whose answer is on the page at once, in this order.
var shown = []string{"status", "hosts", "runs", "ls"}

// shows reports whether a page shows at once what a command prints: it looks, asks for nothing, and takes no time.
func (f *commandForm) shows() bool {
	return !f.Changes && f.rowArg() < 0 && slices.Contains(shown, f.Verb())
}

// More is how many rows are not shown.
func (p *panel) More() int { return p.Rows - len(p.Answer.A.Rows) }

// rank is the place of a panel: how it is comes first, lists come last.
func (p *panel) rank() int {
	return slices.IndexFunc(shown, func(verb string) bool { return strings.HasSuffix(p.Name, " "+verb) })
}

// call is the call of a command with what is known.
func (f *commandForm) call() (args, flags []string) {
	for _, a := range f.Args {
		args = append(args, a.Value)
	}
	for _, flag := range f.Flags {
		if flag.Known {
			flags = append(flags, flag.Name+"="+flag.Value)
		}
	}
	return args, flags
}

func (v *view) panel(f *commandForm) panel {
	args, flags := f.call()
	r, err := v.look(f.Name, args, flags...)
	p := panel{Name: f.Name, Title: f.Summary, Rows: len(r.Rows)}
	r.Rows = r.Rows[:min(len(r.Rows), mostRows)]
	p.Answer = answer{V: v, A: &r.CommandAnswer}
	if err != nil {
		p.Why = why(err)
	}
	return p
}

// why is what an error says, and what to do.
func why(err error) string {
	if p, ok := errors.AsType[*api.Problem](err); ok {
		return strings.TrimSpace(p.Detail + " " + p.Next)
	}
	return err.Error()
}

type kafkaData struct {
	Health struct {
		Cluster string   `json:"cluster"`
		Brokers []string `json:"brokers"`
		Group   struct {
			Name    string `json:"name"`
			State   string `json:"state"`
			Members []struct {
				ID         string `json:"id"`
				Host       string `json:"host"`
				Partitions int    `json:"partitions"`
			} `json:"members"`
		} `json:"group"`
		Topics []struct {
			Topic      string `json:"topic"`
			Partitions int    `json:"partitions"`
			Replicas   int    `json:"replicas"`
			Dead       int64  `json:"dead"`
		} `json:"topics"`
		Partitions []struct {
			Topic     string `json:"topic"`
			Partition int32  `json:"partition"`
			Lag       int64  `json:"lag"`
			Gate      int64  `json:"gate"`
			Committed int64  `json:"committed"`
			End       int64  `json:"end"`
			Member    string `json:"member"`
		} `json:"partitions"`
		Problems []struct {
			About string `json:"about"`
			What  string `json:"what"`
		} `json:"problems"`
	}
	Forms []*commandForm
}

func kafkaPage(v *view) (any, error) {
	var d kafkaData
	r, err := v.look("kafka health", nil)
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(r.Data)
	if err == nil {
		err = json.Unmarshal(text, &d.Health)
	}
	if err != nil {
		return nil, err
	}
	var commands []operate.Command
	_, err = v.get(&commands, url.Values{"limit": {"1000"}}, "/commands")
	for i := range commands {
		if name := commands[i].Name; name == "kafka peek" || name == "skip" {
			d.Forms = append(d.Forms, v.form(&commands[i], nil))
		}
	}
	return d, err
}
