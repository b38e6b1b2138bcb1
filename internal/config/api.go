package config

import (
	"net/netip"
	"strings"
)

// API is where the HTTP API is served, and who may use it.
type API struct {
	Listen    string // empty, or [Off]: nowhere
	BasePath  string
	Cert, Key string // of TLS; empty: none
	Tokens    []APIToken
	Trusted   []string // addresses of proxies
	User      string   // the header that has the user of a proxy
	Roles     map[string]string
}

// APIToken lets a program in. Either Token or File has the secret.
type APIToken struct {
	Name, Token, File, Role string
	Topics                  []string
}

// Serves reports whether the API is served at all.
func (a *API) Serves() bool { return a.Listen != "" && a.Listen != Off }

// Local reports whether only programs of this machine can get in.
func (a *API) Local() bool { return len(a.Tokens) == 0 && len(a.Trusted) == 0 }

func apiField() field {
	name := shape{kind: text, noun: "name", check: checkFilled}
	path := shape{kind: text, noun: "path", check: checkFilled}
	role := oneOf("producer", "worker", "viewer", "operator", "admin")
	token := shape{kind: object, fields: []field{
		{name: "name", doc: "Who it is, in the audit.", must: true, shape: name},
		{name: "token", doc: "The secret; `${VAR}` takes it from the environment.", live: true,
			shape: shape{kind: text, secret: true, sensitive: true, noun: "secret", check: checkToken}},
		{name: "token_file", doc: "A file with the secret, instead.", live: true, shape: path},
		{name: "role", doc: "What it may do.", must: true, live: true, shape: role},
		{name: "topics", doc: "Only these topics, or beginnings that end in `*`.", defDoc: "all", live: true,
			shape: shape{kind: list, of: &name, noun: "list of topics"}},
	}}
	fields := []field{
		{name: "listen", doc: "Where it is served. Without tokens and proxy only on a loopback address.", def: Off,
			env: "PAWL_API", flag: "api", shape: shape{kind: text, noun: "host:port, or off", check: checkListen}},
		{name: "base_path", doc: "Where the routes begin, behind a proxy: `/pawl`.", defDoc: "none",
			shape: shape{kind: text, noun: "path", check: checkBasePath}},
		{name: "tls", doc: "Serve HTTPS.", shape: shape{kind: object, fields: []field{
			{name: "cert", doc: "The certificate, a PEM file. A reload reads it again.", must: true, shape: path},
			{name: "key", doc: "Its key, a PEM file. A reload reads it again.", must: true, shape: path},
		}}},
		{name: "tokens", doc: "Who may come in, and what for.", live: true,
			shape: shape{kind: list, of: &token, noun: "list of tokens"}},
		{name: "proxy", doc: "A proxy that has made sure who the user is.", live: true,
			shape: shape{kind: object, fields: []field{
				{name: "trusted", doc: "Its addresses or networks.", must: true, live: true,
					shape: shape{kind: list, of: &shape{kind: text, noun: "network", check: checkNetwork},
						noun: "list of networks"}},
				{name: "user_header", doc: "The header that has the user.", must: true, live: true,
					shape: shape{kind: text, noun: "header"}},
				{name: "roles", doc: "Roles by user; `*` is any other.", must: true, live: true,
					shape: shape{kind: table, of: &role, checkKey: func(string) error { return nil },
						noun: "mapping by user"}},
			}}},
	}
	return field{name: "api", doc: "The HTTP API for programs in any language.",
		shape: shape{kind: object, fields: fields}}
}

func checkToken(s string) (why, hint string) {
	if len(s) < 8 || strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r >= 0x7f }) {
		return "must be 8 characters or more, without spaces", "such as the output of openssl rand -hex 32"
	}
	return "", ""
}

func checkBasePath(s string) (why, hint string) {
	if s != "" && (!strings.HasPrefix(s, "/") || strings.HasSuffix(s, "/")) {
		return "must begin with / and not end with it", "such as /pawl"
	}
	return "", ""
}

func checkNetwork(s string) (why, hint string) {
	if _, err := netip.ParsePrefix(s); err == nil {
		return "", ""
	}
	if _, err := netip.ParseAddr(s); err != nil {
		return "is no address or network", "such as 10.0.0.0/8"
	}
	return "", ""
}

// bindAPI gives the values of api their types.
func bindAPI(n *node) API {
	a := API{Listen: get[string](n, "listen"), BasePath: get[string](n, "base_path")}
	if n == nil {
		return a
	}
	a.Cert, a.Key = get[string](n.at("tls"), "cert"), get[string](n.at("tls"), "key")
	if tokens := n.at("tokens"); tokens != nil {
		for _, t := range tokens.items {
			a.Tokens = append(a.Tokens, APIToken{Name: get[string](t, "name"), Token: get[string](t, "token"),
				File: get[string](t, "token_file"), Role: get[string](t, "role"), Topics: t.at("topics").texts()})
		}
	}
	p := n.at("proxy")
	if p == nil {
		return a
	}
	a.Trusted, a.User, a.Roles = p.at("trusted").texts(), get[string](p, "user_header"), p.at("roles").byName()
	return a
}

// checkAPI finds what contradicts itself.
func (w *walker) checkAPI(root *node) {
	n := root.at("api")
	if n == nil || n.bad {
		return
	}
	a := bindAPI(n)
	if a.Serves() && a.Local() && !loopback(a.Listen) && !n.unsure("tokens") && !n.unsure("proxy") {
		w.refuse(n.at("listen"), "use 127.0.0.1, or set tokens or a proxy",
			"can be reached from other machines, and there are no tokens")
	}
	names := map[string]bool{}
	for i, t := range a.Tokens {
		item := n.at("tokens").items[i]
		if (t.Token == "") == (t.File == "") && !item.unsure("token") && !item.unsure("token_file") {
			w.refuse(item, "", "needs token or token_file, and not both")
		}
		if names[t.Name] {
			w.refuse(item, "give each a name of its own", "has the name of another token")
		}
		names[t.Name] = true
	}
}
