// Package demo is `pawl demo`: a site with the faults of a real network, served on a loopback port, is crawled by
// package crawl into a file of pages, and what came of it is compared with what the site has.
package demo
