// Package site is the site that the demo crawls: pages that are made up from a seed, with the faults of a real
// network put in on purpose.
//
// A Site is an http.Handler over linked pages:
//
//	/                    links to every topic
//	/topic/3             links to the pages of the topic
//	/topic/3/page/7      links to its topic and to some pages anywhere
//	/robots.txt, /healthz    not pages: no link leads there
//
// Every page can be reached from "/" by links, and no link leads off the site: [Site.Paths] is the truth that a
// crawl can be measured against. Every good page is HTML in UTF-8 with one <title> and one <main>.
//
// # Faults
//
// A page is given its faults when the site is made, from the seed and its path; [Site.Plan] tells them. They concern
// its first one or two requests, and then they are over: a 429 with Retry-After, a 503 or 500, a late answer, a
// connection that is reset in the middle of the body, a body shorter than its Content-Length. Two kinds stay for
// ever. The pages of [Site.Failing] answer 500. The pages of [Site.Broken] answer 200 with a body that no honest
// parser accepts: it contains [BrokenMarker], has neither <title> nor <main>, leaves its elements open, and is not in
// the charset that Content-Type names.
package site
