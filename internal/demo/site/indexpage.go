package site

import "strconv"

// indexSheet renders the list of packages.
func indexSheet(c *catalogue) sheet {
	m := new(markup)
	m.tags("<h1>Go standard library</h1>\n<p>")
	m.text("The documentation of the standard library of " + c.version + ", rendered from its sources: " +
		strconv.Itoa(len(c.all)) + " pages.")
	m.tags("</p>\n<table>\n")
	for _, v := range c.packages {
		href := c.packageHref(v.path)
		if href == "" {
			continue
		}
		m.tags("<tr><td>")
		m.link(href, v.path)
		m.tags("</td><td>")
		m.text(v.synopsis)
		m.tags("</td></tr>\n")
	}
	m.tags("</table>\n")
	return m.sheet("Packages", "The packages of the standard library of "+c.version+".")
}
