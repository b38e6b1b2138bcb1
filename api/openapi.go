package api

import (
	"encoding/json"
	"maps"
	"net/http"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

var pathParameter = regexp.MustCompile(`\{(\w+)\}`)

// openapi is GET /v1/openapi.json: the table of routes as OpenAPI 3.1.
func (x *exchange) openapi() error {
	server := x.api.config.BasePath
	if server == "" {
		server = "/"
	}
	return x.answer(http.StatusOK, map[string]any{
		"openapi": "3.1.0",
		"info": map[string]any{"title": "Pawl", "version": "1",
			"description": "Append, lease and settle messages, look at a store and act on it."},
		"servers":  []any{map[string]any{"url": server}},
		"paths":    paths(),
		"security": []any{map[string]any{"token": []string{}}, map[string]any{}},
		"components": map[string]any{
			"securitySchemes": map[string]any{"token": map[string]any{"type": "http", "scheme": "bearer"}},
			"schemas":         map[string]any{"Problem": schema(reflect.TypeFor[Problem](), true)},
		},
	})
}

func paths() map[string]map[string]any {
	all := map[string]map[string]any{}
	for _, r := range table() {
		if all[r.path] == nil {
			all[r.path] = map[string]any{}
		}
		all[r.path][strings.ToLower(r.method)] = r.describe()
	}
	return all
}

// describe is a route as an operation of OpenAPI.
func (r *route) describe() map[string]any {
	parameters := []any{}
	add := func(in, name string, must bool, s map[string]any) {
		parameters = append(parameters, map[string]any{"in": in, "name": name, "required": must, "schema": s})
	}
	for _, name := range pathParameter.FindAllStringSubmatch(r.path, -1) {
		add("path", name[1], true, parameterSchema(name[1]))
	}
	for _, name := range r.parameters() {
		add("query", name, false, parameterSchema(name))
	}
	if r.method == post {
		add("header", "Pawl-Reason", false, parameterSchema(""))
	}
	if r.need == doAppend || r.path == "/v1/settle" {
		add("header", "Idempotency-Key", false, map[string]any{"type": "string", "minLength": 1, "maxLength": 255})
	}
	o := map[string]any{
		"summary": r.summary, "operationId": strings.ToLower(r.method) + strings.NewReplacer("/", "_", "{", "", "}", "",
			".", "_").Replace(strings.TrimPrefix(r.path, "/v1")),
		"parameters": parameters, "responses": r.responses(),
	}
	if r.method == post {
		o["requestBody"] = r.requestBody()
	}
	return o
}

// parameterSchema describes a parameter of a path or a query. Those that are not named are texts.
func parameterSchema(name string) map[string]any {
	switch name {
	case "limit", "n":
		return map[string]any{"type": "integer", "minimum": 1, "maximum": maxPage}
	case "attempt":
		return map[string]any{"type": "integer", "minimum": 1}
	case "cursor":
		return map[string]any{"type": "integer", "minimum": 0}
	case "resolved":
		return map[string]any{"type": "boolean"}
	case "from":
		return map[string]any{"type": "string", "format": "date-time"}
	case "topic":
		return map[string]any{"type": "string", "pattern": "^[A-Za-z0-9._-]{1,128}$"}
	}
	return map[string]any{"type": "string"}
}

func (r *route) requestBody() map[string]any {
	one := map[string]any{"type": "object", "additionalProperties": false}
	if r.body != nil {
		one = schema(reflect.TypeOf(r.body), false)
	}
	if r.need != doAppend {
		return map[string]any{"required": r.need == doWork,
			"content": map[string]any{jsonType: map[string]any{"schema": one}}}
	}
	many := map[string]any{"type": "array", "items": one, "maxItems": MaxItems}
	return map[string]any{"required": true, "content": map[string]any{
		jsonType:                   map[string]any{"schema": map[string]any{"anyOf": []any{one, many}}},
		"application/x-ndjson":     map[string]any{"schema": map[string]any{"type": "string"}},
		"application/octet-stream": map[string]any{"schema": map[string]any{"type": "string", "format": "binary"}},
	}}
}

// problems are the statuses of answers that are not a success.
var problems = map[int]string{
	400: "malformed", 401: "no token, or one that is not known", 403: "not allowed", 404: "not there",
	405: "another method", 408: "the body did not go on", 409: "conflict or precondition", 413: "too large",
	415: "media type", 422: "invalid, with all fields", 429: "full, see Retry-After", 500: "internal",
	503: "the store is away, see Retry-After",
}

func (r *route) responses() map[string]any {
	answer := func(about string, kind string, s any) map[string]any {
		return map[string]any{"description": about, "content": map[string]any{kind: map[string]any{"schema": s}}}
	}
	all := map[string]any{}
	for status, about := range problems {
		all[strconv.Itoa(status)] = answer(about, "application/problem+json",
			map[string]any{"$ref": "#/components/schemas/Problem"})
	}
	success := r.status
	if success == 0 {
		success = http.StatusOK
	}
	kind := jsonType
	var s any = map[string]any{}
	if r.answers != nil {
		s = schema(reflect.TypeOf(r.answers), true)
	}
	if r.path == "/v1/events" {
		kind, s = "text/event-stream", map[string]any{"type": "string"}
	}
	all[strconv.Itoa(success)] = answer("done", kind, s)
	if r.need == doAppend {
		all["200"] = answer("many, or a duplicate", jsonType, map[string]any{"anyOf": []any{
			schema(reflect.TypeFor[receipt](), true), schema(reflect.TypeFor[receipts](), true)}})
	}
	if r.status == http.StatusAccepted {
		all["200"] = answer("the plan", jsonType, map[string]any{"type": "object"})
	}
	return all
}

// schema describes a type as JSON Schema. What is answered may gain fields; what is asked may not
// have others.
func schema(t reflect.Type, answer bool) map[string]any {
	switch t {
	case reflect.TypeFor[time.Time]():
		return map[string]any{"type": "string", "format": "date-time"}
	case reflect.TypeFor[json.RawMessage]():
		return map[string]any{} // any value
	}
	switch t.Kind() {
	case reflect.Pointer:
		return schema(t.Elem(), answer)
	case reflect.Bool:
		return map[string]any{"type": "boolean"}
	case reflect.Int, reflect.Int64:
		return map[string]any{"type": "integer"}
	case reflect.Float64:
		return map[string]any{"type": "number"}
	case reflect.String:
		return map[string]any{"type": "string"}
	case reflect.Slice:
		return map[string]any{"type": "array", "items": schema(t.Elem(), answer)}
	case reflect.Map:
		return map[string]any{"type": "object", "additionalProperties": schema(t.Elem(), answer)}
	case reflect.Struct:
		return objectSchema(t, answer)
	}
	return map[string]any{} // any value
}

func objectSchema(t reflect.Type, answer bool) map[string]any {
	fields := map[string]any{}
	for _, f := range reflect.VisibleFields(t) {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name == "" || name == "-" {
			continue
		}
		s := schema(f.Type, answer)
		if kind, ok := s["type"].(string); ok && (f.Type.Kind() == reflect.Pointer || !answer) {
			s["type"] = []string{kind, "null"}
		}
		fields[name] = s
	}
	o := map[string]any{"type": "object", "properties": fields}
	if !answer {
		o["additionalProperties"] = false
	}
	return o
}

// parameters are what a query of the route may have.
func (r *route) parameters() []string {
	all := slices.Clone(r.query)
	if r.list {
		all = append(all, "limit", "cursor")
	}
	return all
}

// checkQuery refuses parameters that a route does not know, that are given more than once, or whose values are wrong.
func (x *exchange) checkQuery(r *route) error {
	given := x.r.URL.Query()
	known := r.parameters()
	q := &query{exchange: x}
	for _, name := range slices.Sorted(maps.Keys(given)) {
		switch {
		case !slices.Contains(known, name):
			q.bad(name, "is no parameter here")
		case len(given[name]) > 1 && !slices.Contains([]string{"attr", "arg", "flag"}, name):
			q.bad(name, "is given more than once")
		case name == "since" || name == "until":
			q.point(name)
		case name == "older_than":
			q.duration(name)
		case name == "resolved" || name == "newest":
			q.boolean(name)
		case name == "state":
			q.state()
		case name == "status":
			q.status()
		case name == "limit" || name == "cursor":
			_, err := x.page()
			q.err = together(q.err, err)
		}
	}
	return q.err
}
