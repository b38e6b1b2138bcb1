package api

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/operate"
)

// Commands of pipelines and of a cluster: what the command line has beyond the nouns that have routes of their own.

func commandRoutes() []route {
	own := "(each has its own: GET /v1/commands)"
	return []route{
		{method: get, path: "/v1/commands", need: doRead, summary: "List commands that can be carried out here",
			Command: own, Console: "pipelines", do: rows((*exchange).listCommands), list: true},
		{method: get, path: "/v1/commands/{command}", need: doRead, summary: "Carry out a command that looks",
			Command: own, Console: "pipeline", do: (*exchange).lookByCommand, query: []string{"arg", "flag"}},
		{method: post, path: "/v1/commands/{command}", need: doOperate, summary: "Carry out a command",
			Command: own, Console: "pipeline", do: (*exchange).changeByCommand, body: commandBody{}},
		{method: get, path: "/v1/runs/{id}", need: doRead, summary: "Show what became of a command",
			Command: own, Console: "pipeline", do: whole(show((*exchange).showRun))},
	}
}

// commandBody is a call of a command.
type commandBody struct {
	Args   []string            `json:"args"`
	Flags  map[string][]string `json:"flags"` // by name, without --
	DryRun bool                `json:"dry_run"`
}

// run is a command that is carried out.
type run struct {
	ID      string `json:"id"`
	Command string `json:"command"`
	Changes bool   `json:"changes"`
	Who     string `json:"who"`
	commandBody
	StartedAt time.Time  `json:"started_at"`
	EndedAt   *time.Time `json:"ended_at"` // null: it goes on
	*operate.CommandAnswer
}

// Bounds of commands.
const (
	mostRuns     = 16              // at once
	keptRuns     = 100             // that have ended
	answerWithin = 5 * time.Second // else it goes on, and is asked for by its id
	runTime      = time.Hour
)

// runs are the commands that were carried out lately.
type runs struct {
	mu    sync.Mutex
	byID  map[string]run
	order []string // of their beginnings
	now   int      // that are under way
}

func (x *exchange) listCommands(context.Context) ([]operate.Command, error) {
	return x.api.config.Rooms.Commands(), nil
}

// command is that of a path: its words are joined by dots.
func (x *exchange) command(changes bool) (*operate.Command, error) {
	if err := x.needWhole(); err != nil {
		return nil, err
	}
	name, all := strings.ReplaceAll(x.r.PathValue("command"), ".", " "), x.api.config.Rooms.Commands()
	i := slices.IndexFunc(all, func(c operate.Command) bool { return c.Name == name })
	switch {
	case i < 0:
		return nil, notFound("there is no command " + name + " here; GET /v1/commands lists them")
	case all[i].Changes && !changes:
		return nil, &Problem{Status: http.StatusMethodNotAllowed, Title: "method not allowed",
			Detail: name + " changes something", Next: "send it with POST"}
	}
	return &all[i], nil
}

func (x *exchange) lookByCommand() error {
	c, err := x.command(false)
	if err != nil {
		return err
	}
	b := commandBody{Args: x.r.URL.Query()["arg"], Flags: map[string][]string{}}
	for _, flag := range x.r.URL.Query()["flag"] {
		name, value, _ := strings.Cut(flag, "=")
		b.Flags[name] = append(b.Flags[name], value)
	}
	return x.carry(c, &b)
}

func (x *exchange) changeByCommand() error {
	var b commandBody
	c, err := x.command(true)
	if err == nil && c.Settings() && x.caller.may&doAdmin == 0 {
		err = forbidden(x.caller.name + " may not do this")
	}
	if err == nil {
		err = x.readOptional(&b)
	}
	if err != nil {
		return err
	}
	return x.carry(c, &b)
}

// carry carries a command out. If it takes long, it goes on, and the answer is 202.
func (x *exchange) carry(c *operate.Command, b *commandBody) error {
	call := operate.CommandCall{Store: x.api.store, Who: x.caller.name, Args: b.Args, Flags: b.Flags, DryRun: b.DryRun}
	r := run{ID: pawl.NewID(), Command: c.Name, Changes: c.Changes, Who: call.Who, commandBody: *b,
		StartedAt: time.Now().UTC()}
	all := &x.api.runs
	if !all.begin(r) {
		return &Problem{Status: http.StatusTooManyRequests, Title: "full", Detail: "too many commands are under way"}
	}
	ended := make(chan struct{})
	x.api.wg.Go(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(x.r.Context()), runTime)
		defer cancel()
		defer context.AfterFunc(x.api.ctx, cancel)()
		answer := c.Run(ctx, call)
		all.end(r.ID, &answer)
		close(ended)
	})
	timer := time.NewTimer(answerWithin)
	defer timer.Stop()
	status := http.StatusOK
	select {
	case <-ended:
	case <-timer.C:
		status = http.StatusAccepted
	case <-x.r.Context().Done():
		return x.r.Context().Err()
	}
	found, _ := all.get(r.ID)
	if refused := commandStatus[found.Code]; refused != 0 && found.EndedAt != nil {
		return &Problem{Status: refused, Title: c.Name + " was not carried out", Detail: found.Error, Next: found.Next}
	}
	return x.answer(status, found)
}

// commandStatus is the status of an exit code by which nothing was done. The others come with what was.
var commandStatus = map[int]int{
	1: http.StatusInternalServerError, 2: http.StatusUnprocessableEntity, 5: http.StatusConflict,
	6: http.StatusNotFound, 8: http.StatusForbidden, 75: http.StatusServiceUnavailable,
}

func (x *exchange) showRun(context.Context) (any, error) {
	r, ok := x.api.runs.get(x.r.PathValue("id"))
	if !ok {
		return nil, notFound("this process has carried out no such command lately")
	}
	return r, nil
}

func (rs *runs) begin(r run) bool {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	if rs.now == mostRuns {
		return false
	}
	if rs.byID == nil {
		rs.byID = map[string]run{}
	}
	rs.now++
	rs.byID[r.ID] = r
	rs.order = append(rs.order, r.ID)
	for i := 0; i < len(rs.order) && len(rs.order) > keptRuns; {
		if rs.byID[rs.order[i]].EndedAt == nil {
			i++
			continue
		}
		delete(rs.byID, rs.order[i])
		rs.order = slices.Delete(rs.order, i, i+1)
	}
	return true
}

func (rs *runs) end(id string, a *operate.CommandAnswer) {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	rs.now--
	r := rs.byID[id]
	r.EndedAt, r.CommandAnswer = new(time.Now().UTC()), a
	rs.byID[id] = r
}

func (rs *runs) get(id string) (run, bool) {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	r, ok := rs.byID[id]
	r.CommandAnswer = cmp.Or(r.CommandAnswer, &operate.CommandAnswer{})
	return r, ok
}
