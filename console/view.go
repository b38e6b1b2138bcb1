package console

import (
	"bytes"
	"context"
	"crypto/rand"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"html/template"
	"io/fs"
	"net/http"
	"net/url"
	"path"
	"strings"
	"sync"
	"time"

	"github.com/pawl-dev/pawl/api"
	"github.com/pawl-dev/pawl/internal/operate"
)

//go:embed templates/*.html
var templateFiles embed.FS

// templates has each page with the frame around it.
var templates = sync.OnceValue(func() map[string]*template.Template {
	frame := template.Must(template.New("").Funcs(formats).Funcs(commandFormats).ParseFS(templateFiles, "templates/frame.html",
		"templates/parts*.html"))
	names, err := fs.Glob(templateFiles, "templates/*.html")
	if err != nil {
		panic(err) // the pattern is right
	}
	all := map[string]*template.Template{}
	for _, name := range names {
		page := strings.TrimSuffix(path.Base(name), ".html")
		if page != "frame" && !strings.HasPrefix(page, "parts") {
			all[page] = template.Must(template.Must(frame.Clone()).ParseFS(templateFiles, name))
		}
	}
	return all
})

// view is a request for a page, and what its template is given: methods of it, and the page's own Data.
type view struct {
	k    *Console
	site *site
	w    http.ResponseWriter
	r    *http.Request
	page *page
	who  api.Caller
	in   bool // somebody is known to ask

	Lang, Theme, Nonce string
	Base, Prometheus   string // as the Config has them
	Data               any
	Soon               bool      // something is still being read: the page is to be asked for again
	Now, AsOf          time.Time // AsOf is when the oldest of what the page shows was read
	note               string
}

func (k *Console) view(w http.ResponseWriter, r *http.Request, s *site, p *page) *view {
	now := time.Now()
	v := &view{k: k, site: s, w: w, r: r, page: p, Nonce: rand.Text(), Now: now, AsOf: now,
		Theme: cookieOf(r, themeCookie), Base: k.config.BasePath, Prometheus: k.config.Prometheus}
	v.Lang = language(cookieOf(r, langCookie), r.Header.Get("Accept-Language"))
	return v
}

// admit finds out who asks, and reports whether the page is for them. Otherwise it has answered.
func (v *view) admit() bool {
	who, err := v.k.caller(v.r)
	if err == nil && !who.May(api.Viewer) {
		err = &api.Problem{Status: http.StatusForbidden, Title: "forbidden", Detail: v.T("Your role does not read.")}
	}
	if err == nil {
		v.who, v.in = who, true
		v.takeNote()
		return true
	}
	p, known := errors.AsType[*api.Problem](err)
	switch {
	case (!known || p.Status == http.StatusUnauthorized) && v.k.config.Auth == nil:
		v.askLogin()
	default:
		v.fail(err)
	}
	return false
}

// askLogin sends a person to the login. One that comes by a link from elsewhere has no cookie yet: SameSite=Strict
// gives it to a page of our own only, which asks again.
func (v *view) askLogin() {
	if v.r.Header.Get("Sec-Fetch-Site") == "cross-site" && v.r.Method == http.MethodGet {
		v.render(http.StatusOK, "again", nil)
		return
	}
	to := v.k.config.BasePath + "/login?" + url.Values{"back": {v.r.URL.RequestURI()}}.Encode()
	if v.r.Header.Get("HX-Request") != "" {
		v.w.Header().Set("HX-Redirect", to)
		v.w.WriteHeader(http.StatusUnauthorized)
		return
	}
	http.Redirect(v.w, v.r, to, http.StatusSeeOther)
}

// mayChange reports whether changes are allowed here at all. Otherwise it has answered.
func (v *view) mayChange() bool {
	v.site.memo.forget()
	if v.k.config.ReadOnly {
		v.fail(&api.Problem{Status: http.StatusForbidden, Title: "forbidden", Detail: v.T("This console is read-only.")})
		return false
	}
	return true
}

// render answers with a page.
func (v *view) render(status int, name string, data any) {
	v.Data = data
	var b bytes.Buffer
	t := templates()[name]
	if t == nil {
		http.Error(v.w, "there is no page "+name, http.StatusInternalServerError)
		return
	}
	part := "frame"
	if v.r.Method == http.MethodPost && v.r.Header.Get("HX-Request") != "" {
		part = "main" // its place is in the page
	}
	if err := t.ExecuteTemplate(&b, part, v); err != nil {
		http.Error(v.w, "the page cannot be shown: "+err.Error(), http.StatusInternalServerError)
		return
	}
	h := v.w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Security-Policy", "default-src 'none'; script-src 'nonce-"+v.Nonce+"'; style-src 'nonce-"+v.Nonce+
		"'; img-src 'self'; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'")
	v.w.WriteHeader(status)
	_, _ = v.w.Write(b.Bytes()) // the browser asks again
}

// fail answers that a page cannot be shown, or that something was not done.
func (v *view) fail(err error) {
	p, ok := errors.AsType[*api.Problem](err)
	if !ok {
		p = &api.Problem{Status: http.StatusInternalServerError, Title: "internal error", Detail: err.Error()}
	}
	if p.Status == http.StatusServiceUnavailable || p.Status == http.StatusTooManyRequests {
		v.w.Header().Set("Retry-After", "2")
	}
	if v.r.Method == http.MethodPost && v.r.Header.Get("HX-Request") != "" {
		v.Data = p
		var b bytes.Buffer
		if err := templates()["problem"].ExecuteTemplate(&b, "problem", v); err != nil {
			http.Error(v.w, err.Error(), http.StatusInternalServerError)
			return
		}
		v.w.Header().Set("Content-Type", "text/html; charset=utf-8")
		v.w.WriteHeader(p.Status)
		_, _ = v.w.Write(b.Bytes()) // the browser asks again
		return
	}
	v.render(p.Status, "problem", p)
}

// get reads what the API has at a path below /v1/ into a value. It returns the cursor of a list that goes on.
func (v *view) get(into any, query url.Values, path string, names ...any) (cursor string, err error) {
	header, err := v.list(into, query, fill(path, names...))
	return header.Get("Pawl-Cursor"), err
}

// list is get, with all that the API says about a list.
func (v *view) list(into any, query url.Values, path string) (http.Header, error) {
	return v.listAs(v.r.Context(), into, query, path)
}

func (v *view) listAs(ctx context.Context, into any, query url.Values, path string) (http.Header, error) {
	target := "/v1" + path
	if len(query) > 0 {
		target += "?" + query.Encode()
	}
	header, text, err := v.site.api.Call(ctx, v.who, http.MethodGet, target, nil)
	if err != nil {
		return header, err
	}
	return header, json.Unmarshal(text, into)
}

// post sends what a person asks for to the API.
func (v *view) post(into any, body any, path string, names ...any) error {
	return v.send(into, body, "/v1"+fill(path, names...))
}

func (v *view) send(into, body any, target string) error {
	b, err := json.Marshal(body)
	if err != nil {
		return err
	}
	ctx := operate.Via(v.r.Context(), "console "+v.k.sites[0].api.From(v.r))
	_, text, err := v.site.api.Call(ctx, v.who, http.MethodPost, target, b)
	if err != nil || into == nil {
		return err
	}
	return json.Unmarshal(text, into)
}

// fill puts names into a path, for each %s one.
func fill(path string, names ...any) string {
	for i := range names {
		names[i] = url.PathEscape(fmt.Sprint(names[i]))
	}
	if len(names) == 0 {
		return path
	}
	return fmt.Sprintf(path, names...)
}

// say says something on the next page that is shown.
func (v *view) say(text string) {
	v.k.cookie(v.w, v.r, noteCookie, url.QueryEscape(text), time.Minute)
}

func (v *view) takeNote() {
	given := cookieOf(v.r, noteCookie)
	if given != "" && v.r.Header.Get("HX-Request") == "" && v.r.Method == http.MethodGet {
		v.note, _ = url.QueryUnescape(given)
		v.k.cookie(v.w, v.r, noteCookie, "", 0)
	}
}

// back answers with another page of the store: what was asked for is done.
func (v *view) back(to string) error {
	to = local(to, v.site.base)
	if v.r.Header.Get("HX-Request") != "" {
		v.w.Header().Set("HX-Redirect", to)
		v.w.WriteHeader(http.StatusOK)
	} else {
		http.Redirect(v.w, v.r, to, http.StatusSeeOther)
	}
	return errAnswered
}

// T is an English text in the language of the person.
func (v *view) T(text string, args ...any) string { return translate(v.Lang, text, args...) }

// May reports whether the person may do what a role may, here: {{if $.May "operator"}}.
func (v *view) May(role string) bool {
	return v.in && !v.k.config.ReadOnly && (v.who.May(role) || role == api.Producer && v.who.May(api.Operator))
}

// In reports whether somebody is known to ask.
func (v *view) In() bool { return v.in }

// Live reports whether the page can be asked for again.
func (v *view) Live() bool { return v.in && v.r.Method == http.MethodGet }

// Who is the name of the person.
func (v *view) Who() string {
	if !v.in {
		return ""
	}
	return v.who.Name()
}

// ReadOnly reports whether nothing can be changed here.
func (v *view) ReadOnly() bool { return v.k.config.ReadOnly }

// Title, Color and Stores tell stores apart.
func (v *view) Title() string { return v.site.name }

// Color is that of the store.
func (v *view) Color() string { return v.site.color }

// Stores are all of the switch.
func (v *view) Stores() []choice {
	var all []choice
	for i, s := range v.k.sites {
		if !s.ready.Load() {
			continue
		}
		name := s.name
		if name == "" {
			name = "pawl"
		}
		all = append(all, choice{Name: name, Path: s.base + "/", Color: s.color, Here: s == v.site,
			Class: "site-" + num(i)})
	}
	return all
}

// choice is a line of a navigation.
type choice struct {
	Name, Path, Color, Class, Key string
	Here                          bool
}

// Nav are the pages of the navigation.
func (v *view) Nav() []choice {
	var all []choice
	for _, p := range pages() {
		if p.nav != "" {
			here := p.path == v.page.path || p.path != "/" && strings.HasPrefix(v.page.path+"/", p.path+"/")
			all = append(all, choice{Name: v.T(p.nav), Path: v.site.base + p.path, Key: p.key, Here: here})
		}
	}
	return all
}

// Note is what was done before this page.
func (v *view) Note() string { return v.note }

// URL is the address of a page: {{$.URL "/topics/%s" .Topic}}.
func (v *view) URL(path string, names ...any) string { return v.site.base + fill(path, names...) }

// Self is the address of this page with its filters.
func (v *view) Self() string {
	if v.r.Method != http.MethodGet {
		return v.site.base + "/"
	}
	return v.r.URL.RequestURI()
}

// Query is the value of a filter in the address.
func (v *view) Query(name string) string { return v.r.URL.Query().Get(name) }

// With is the address of this page with some filters changed; an empty value takes one away.
func (v *view) With(pairs ...any) string {
	q := v.r.URL.Query()
	for i := 0; i+1 < len(pairs); i += 2 {
		name, value := fmt.Sprint(pairs[i]), fmt.Sprint(pairs[i+1])
		q.Set(name, value)
		if value == "" {
			q.Del(name)
		}
	}
	if len(q) == 0 {
		return v.r.URL.EscapedPath()
	}
	return v.r.URL.EscapedPath() + "?" + q.Encode()
}

// Static is the address of a file of the console.
func (v *view) Static(name string) string {
	a := assets()[name]
	if a == nil {
		return ""
	}
	return v.k.config.BasePath + "/static/" + name + "?v=" + a.hash
}

// NextTheme is the one that the switch goes on to.
func (v *view) NextTheme() string {
	switch v.Theme {
	case "light":
		return "dark"
	case "dark":
		return "system"
	default:
		return "light"
	}
}

// Session reports whether there is a session that can be ended.
func (v *view) Session() bool { return cookieOf(v.r, sessionCookie) != "" }

// Search is the query of this page, for another one with the same filters.
func (v *view) Search() string {
	if q := v.filter(); len(q) > 0 {
		return "?" + q.Encode()
	}
	return ""
}

// Hour is a link with its filters narrowed to an hour.
func (v *view) Hour(link, since, until string) string {
	u, err := url.Parse(link)
	if err != nil {
		return link
	}
	q := u.Query()
	q.Set("since", since)
	q.Set("until", until)
	u.RawQuery = q.Encode()
	return u.String()
}

// Word is the state of something, in the language of the person.
func (v *view) Word(state any) string { return v.T(fmt.Sprint(state)) }

// Whole reports whether the person may see all topics.
func (v *view) Whole() bool { return v.in && v.who.Whole() }
