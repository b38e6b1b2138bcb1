package console

import (
	"strings"
	"time"
)

func statePages() []page {
	return []page{
		{path: "/state", file: "state", nav: "State", key: "v", show: statePage},
		{path: "/state/{topic}/{key}", file: "history", show: stateHistory},
	}
}

// syncPrefix begins the keys of values that processes share: TOPIC/KEY follows.
const syncPrefix = "sync/"

// entry is an entry of the state.
type entry struct {
	Key     string    `json:"key"`
	Value   string    `json:"value"`
	Version int64     `json:"version"`
	Writer  string    `json:"writer"`
	At      time.Time `json:"at"`
	History string    // the page of its versions, of a value that processes share
}

type stateData struct {
	Prefix  string
	Entries []entry
	Forms   []*commandForm
	Cursor  string
}

func statePage(v *view) (any, error) {
	d := stateData{Prefix: syncPrefix}
	if v.r.URL.Query().Has("prefix") {
		d.Prefix = v.Query("prefix")
	}
	q := v.query("cursor")
	q.Set("prefix", d.Prefix)
	var err error
	if d.Cursor, err = v.get(&d.Entries, q, "/state"); err != nil {
		return nil, err
	}
	for i := range d.Entries {
		e := &d.Entries[i]
		if name, shared := strings.CutPrefix(e.Key, syncPrefix); shared {
			topic, key, _ := strings.Cut(name, "/")
			e.History = v.URL("/state/%s/%s", topic, key)
		}
	}
	d.Forms, err = v.stateForms(nil, v.Self())
	return d, err
}

// stateForms are those that write and remove a value.
func (v *view) stateForms(known map[string]string, back string) (all []*commandForm, err error) {
	commands, err := v.commands("state")
	for i := range commands {
		if c := &commands[i]; c.Changes {
			f := v.form(c, known)
			if f.Label, f.Back = v.T("Write"), back; c.Verb() == "rm" {
				f.Label = v.T("Remove")
			}
			all = append(all, f)
		}
	}
	return all, err
}

type historyData struct {
	Topic, Key string
	Answer     answer
	Forms      []*commandForm
}

func stateHistory(v *view) (any, error) {
	d := historyData{Topic: v.r.PathValue("topic"), Key: v.r.PathValue("key")}
	r, err := v.look("state history", []string{d.Topic, d.Key})
	if err != nil {
		return nil, err
	}
	d.Answer = answer{V: v, A: &r.CommandAnswer}
	d.Forms, err = v.stateForms(map[string]string{"TOPIC": d.Topic, "KEY": d.Key}, v.Self())
	return d, err
}
