package console

import (
	"net/url"
	"strings"

	"github.com/pawl-dev/pawl/internal/operate"
)

func auditPages() []page {
	return []page{{path: "/audit", file: "audit", nav: "Audit", key: "a", show: auditPage}}
}

// auditRow is an entry, with how to undo what was done.
type auditRow struct {
	operate.AuditEntry
	Link string // what it was done to
	Undo string // in words
	IDs  []string
}

type auditData struct {
	Rows   []auditRow
	Cursor string
	Looked string // how many entries were looked at, if that was bounded
}

func auditPage(v *view) (any, error) {
	q := v.query("kind", "since", "cursor")
	q.Set("newest", "true")
	var found []operate.AuditEntry
	header, err := v.list(&found, q, "/audit")
	d := auditData{Cursor: header.Get("Pawl-Cursor"), Looked: header.Get("Pawl-Looked")}
	for i := range found {
		d.Rows = append(d.Rows, v.auditRow(&found[i]))
	}
	return d, err
}

// undoHints say how to undo an action, by its last words.
var undoHints = []struct{ action, hint string }{
	{"schedules rm", "Put the schedule again; its history is still there."},
	{"workers drain", "Start the worker again."},
	{"operations cancel", "Plan it again for what is left."},
	{"topics rm", "It cannot be undone; sending makes the topic again."},
	{"state put", "Write the value from before again: the history has it."},
	{"state rm", "Write the value from before again: the history has it."},
	{"project rollback", "Rebuild."}, {"forward rules rm", "Add the rule again."},
	{"forward rules add", "Remove the rule."}, {"forward rules disable", "Enable the target again."},
	{"set", "Set what is shown back to what it was."},
	{"pause", "Resume it."}, {"resume", "Pause it again."},
	{"replay", "What was sent is on its way: cancel the messages, or skip them."},
	{"backfill", "What was sent is on its way: cancel the messages, or skip them."},
	{"resolve", "Reopen them."}, {"reopen", "Resolve them again."},
	{"discard", "It cannot be undone."}, {"cancel", "It cannot be undone: send the message again."},
	{"skip", "Replay the dead letter."}, {"edit", "Edit it again: the entry has the body from before, if it is short."},
}

func (v *view) auditRow(a *operate.AuditEntry) auditRow {
	r := auditRow{AuditEntry: *a}
	action := " " + strings.ReplaceAll(a.Action, ".", " ") // a pipeline writes forward.rules.add
	for _, h := range undoHints {
		if a.Count > 0 && a.Result.Done == 0 { // nothing was done
			break
		}
		if strings.HasSuffix(action, " "+h.action) {
			r.Undo = v.T(h.hint)
			break
		}
	}
	noun, _, _ := strings.Cut(a.Action, " ")
	switch {
	case a.OperationID != "":
		r.Link = v.URL("/operations/%s", a.OperationID)
	case a.Target != "" && noun == "topics":
		r.Link = v.URL("/topics/%s", a.Target)
	case a.Target != "" && strings.HasPrefix(noun, "pipeline"):
		r.Link = v.URL("/pipelines/%s", a.Target)
	case a.Target != "" && noun == "schedules":
		r.Link = v.URL("/schedules/%s", a.Target)
	case a.Target != "" && noun == "operations":
		r.Link = v.URL("/operations/%s", a.Target)
	}
	if a.Filter != nil {
		r.IDs = a.Filter.IDs
		if r.IDs == nil && a.Filter.Topic != "" && r.Link == "" {
			r.Link = v.URL("/dead") + "?" + url.Values{"topic": {a.Filter.Topic}}.Encode()
		}
	}
	return r
}
