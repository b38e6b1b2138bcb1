package api

import (
	"net/http"
	"slices"
)

// route is a line of the table of routes: what a caller must be allowed to do, and what the command line and the
// console call it. An exception says why one of them lacks it.
type route struct {
	method, path string
	need         action
	summary      string
	// Command is the command that does the same, or a reason in parentheses why there is none.
	Command string
	// Console is the action of the console that does the same, or a reason in parentheses.
	Console string
	do      func(*exchange) error
	query   []string // parameters, besides limit and cursor of a list
	list    bool
	body    any // the type of the JSON body; nil: none
	answers any // the type of the answer
	status  int // of success; 0: 200
}

// Route is a line of the table, for tests and documents.
type Route struct {
	Method, Path, Command, Console string

	need action
}

// OpenTo reports whether a role may ask it.
func (r Route) OpenTo(role string) bool { return roles[role]&r.need == r.need }

// Routes returns the table of all routes.
func Routes() []Route {
	var all []Route
	for _, r := range table() {
		all = append(all, Route{r.method, r.path, r.Command, r.Console, r.need})
	}
	return all
}

const (
	get  = http.MethodGet
	post = http.MethodPost
)

// notOfPeople is why the console has no action for what programs do.
const notOfPeople = "(it is what programs do)"

func table() []route {
	return slices.Concat(workRoutes(), lookRoutes(), actRoutes(), commandRoutes())
}

func workRoutes() []route {
	return []route{
		{method: post, path: "/v1/topics/{topic}/messages", need: doAppend, summary: "Append messages to a topic",
			Command: "send", Console: "messages send", do: (*exchange).appendMessages, body: message{},
			answers: receipt{}, status: http.StatusCreated},
		{method: post, path: "/v1/messages", need: doAppend, summary: "Append messages, each with its topic",
			Command: "send", Console: "messages send", do: (*exchange).appendMessages, body: message{},
			answers: receipt{}, status: http.StatusCreated},
		{method: post, path: "/v1/lease", need: doWork, summary: "Lease messages, waiting for them",
			Command: "work", Console: notOfPeople, do: (*exchange).leaseMessages, body: leaseRequest{}, answers: leased{}},
		{method: post, path: "/v1/extend", need: doWork, summary: "Extend leases",
			Command: "work", Console: notOfPeople, do: (*exchange).extendLeases, body: extendRequest{},
			answers: extended{}},
		{method: post, path: "/v1/settle", need: doWork, summary: "Settle deliveries",
			Command: "work", Console: notOfPeople, do: (*exchange).settleDeliveries, body: settleRequest{},
			answers: settledAll{}},
		{method: get, path: "/v1/openapi.json", need: doAny, summary: "Describe the routes",
			Command: "(the command line describes itself: --help)", Console: notOfPeople, do: (*exchange).openapi,
			answers: map[string]any{}},
	}
}

// message is a message as POST takes it, for the description of the routes.
type message struct {
	Topic        string            `json:"topic"`
	ID           string            `json:"id"`
	Key          string            `json:"key"`
	KeyBase64    string            `json:"key_base64"`
	Priority     int               `json:"priority"`
	Body         string            `json:"body"`
	BodyBase64   string            `json:"body_base64"`
	JSON         any               `json:"json"`
	Headers      map[string]string `json:"headers"`
	DelaySeconds float64           `json:"delay_seconds"`
	NotBefore    string            `json:"not_before"`
	RetryFor     float64           `json:"retry_for_seconds"`
	Attempts     int               `json:"attempts"`
	Timeout      float64           `json:"timeout_seconds"`
	Unique       *struct {
		Key          string  `json:"key"`
		Scope        string  `json:"scope"`
		ForSeconds   float64 `json:"for_seconds"`
		UntilClaimed bool    `json:"until_claimed"`
	} `json:"unique"`
}

// leased is the answer of POST /v1/lease, for the description of the routes.
type leased struct {
	Deliveries []struct {
		ID              string            `json:"id"`
		Topic           string            `json:"topic"`
		Key             *string           `json:"key"`
		KeyBase64       string            `json:"key_base64"`
		Attempt         int               `json:"attempt"`
		Priority        int               `json:"priority"`
		Headers         map[string]string `json:"headers"`
		Body            string            `json:"body"`
		BodyBase64      string            `json:"body_base64"`
		Token           string            `json:"token"`
		LeaseSeconds    float64           `json:"lease_seconds"`
		DeadlineSeconds float64           `json:"deadline_seconds"`
		EnqueuedAt      string            `json:"enqueued_at"`
	} `json:"deliveries"`
}

// routes is the multiplexer of the table.
func (a *API) routes() *http.ServeMux {
	mux := http.NewServeMux()
	for _, r := range table() {
		mux.HandleFunc(r.method+" "+r.path, func(w http.ResponseWriter, q *http.Request) {
			x, _ := q.Context().Value(exchangeKey{}).(*exchange)
			x.r = q
			if r.need&x.caller.may != r.need {
				x.fail(forbidden(x.caller.name + " may not do this"))
				return
			}
			if err := x.carryOut(&r); err != nil {
				x.fail(err)
			}
		})
	}
	return mux
}

// carryOut checks the query, and does what a route is for.
func (x *exchange) carryOut(r *route) error {
	if err := x.checkQuery(r); err != nil {
		return err
	}
	return r.do(x)
}
