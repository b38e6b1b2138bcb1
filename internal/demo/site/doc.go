// Package site is the site that the demo crawls: the documentation of the Go
// standard library, rendered from the user's own Go installation, with the
// faults of a real network put in on purpose.
//
// A Site is an http.Handler over some thousands of linked pages:
//
//	/                        the list of packages
//	/pkg/net/http            a package
//	/pkg/net/http/Client     a type, a function, or a group of constants or variables
//	/src/net/http/client.go  a source file, with an anchor per line
//	/robots.txt, /healthz    not pages: no link leads there
//
// Which pages exist depends on the Go installation and [Options].Pages alone,
// every one of them is reachable from "/" by links, and no link leads out of
// the set, nor off the site: an outside address in a comment is printed as
// text. [Site.Paths] is therefore the truth a crawl can be measured against.
// The files are those that a build for linux/amd64 without cgo would take,
// on whatever machine the site runs.
//
// # Markup
//
// Every good page is HTML in UTF-8 with one <title> and one <main>; the latter
// says what the page is in its attributes data-kind (index, package, type,
// func, const, var, source), data-package and data-name.
//
// # Faults
//
// A page is given its faults when the site is opened, from the seed and its
// path; [Site.Plan] tells them. They concern its first one or two requests,
// and then they are over: a 429 with Retry-After, a 503 or 500, a late answer,
// a connection that is reset in the middle of the body, a body shorter than
// its Content-Length. Two kinds stay for ever. The pages of [Site.Failing]
// answer 500. The pages of [Site.Broken] answer 200 with a body no honest
// parser accepts: it contains [BrokenMarker], has neither <title> nor <main>,
// leaves its elements open, and is not in the charset that Content-Type names.
package site
