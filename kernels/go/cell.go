package main

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/scanner"
	"go/token"
	"go/types"
	"io"
	"os"
	"sort"
	"strconv"
	"strings"
)

// What earlier cells have left.
var (
	fset     = token.NewFileSet()
	live     = map[string]types.Object{}   // by the name the user knows
	cellOf   = map[*types.Package]string{} // the package's name on disk
	imported = map[string]string{}         // name -> path
	exports  = map[string]string{}         // path -> file with export data
	packages = importer.ForCompiler(fset, "gc", openExport)
)

type cellPackage struct {
	name, text string
	empty      bool
	checked    *types.Package
	imports    map[string]string
}

// chunk is a piece of a cell at its top level.
type chunk struct {
	text string
	line int
	tok  token.Token // it begins with
}

// split cuts a cell where a semicolon, written or implied, stands outside all brackets.
func split(code string) []chunk {
	var s scanner.Scanner
	var out []chunk
	file := token.NewFileSet().AddFile("", -1, len(code))
	s.Init(file, []byte(code), func(token.Position, string) {}, 0)
	start, depth, first := -1, 0, token.ILLEGAL
	for {
		pos, tok, _ := s.Scan()
		at := file.Offset(pos)
		switch tok {
		case token.LPAREN, token.LBRACK, token.LBRACE:
			depth++
		case token.RPAREN, token.RBRACK, token.RBRACE:
			depth--
		}
		if tok == token.EOF || (tok == token.SEMICOLON && depth <= 0) {
			if start >= 0 {
				out = append(out, chunk{code[start:min(at, len(code))], file.Line(file.Pos(start)), first})
			}
			start = -1
			if tok == token.EOF {
				return out
			}
			continue
		}
		if start < 0 {
			start, first = at, tok
		}
	}
}

func min(a, b int) int {
	if a < b {
		return a
	}
	return b
}

func parseDecl(text string) (*ast.File, error) {
	return parser.ParseFile(token.NewFileSet(), "", "package p;"+text, parser.SkipObjectResolution)
}

func parseStmt(text string) ast.Stmt {
	f, err := parser.ParseFile(token.NewFileSet(), "", "package p;func _() {"+text+"\n}", parser.SkipObjectResolution)
	if err != nil || len(f.Decls) != 1 {
		return nil
	}
	if body := f.Decls[0].(*ast.FuncDecl).Body.List; len(body) == 1 {
		return body[0]
	}
	return nil
}

// builder collects the source that is checked and, after some edits, compiled.
type builder struct {
	decls, body bytes.Buffer
	hoisted     []string // variables, in order
	names       map[string]bool
	imports     map[string]string // of this cell
	last        chunk
	lastIsValue bool
	hasMain     bool
	nothing     bool
}

func line(out *bytes.Buffer, n, at int) { fmt.Fprintf(out, "\n//line cell[%d]:%d\n", n, at) }

// define turns variables of the top level into variables of the package: their types are inferred from `var names =
// values`, their values assigned where the statement stood.
func (b *builder) define(n int, c chunk, names []string, kind, values string) {
	fresh := make([]string, len(names))
	for i, name := range names {
		fresh[i] = "_"
		if name != "_" && !b.names[name] {
			fresh[i] = name
			b.names[name] = true
			b.hoisted = append(b.hoisted, name)
		}
	}
	line(&b.decls, n, c.line)
	fmt.Fprintf(&b.decls, "var %s %s", strings.Join(fresh, ", "), kind)
	if values != "" {
		fmt.Fprintf(&b.decls, " = %s", values)
		line(&b.body, n, c.line)
		fmt.Fprintf(&b.body, "%s = %s", strings.Join(names, ", "), values)
	}
	b.decls.WriteByte('\n')
}

func (b *builder) add(n int, c chunk, isLast bool) error {
	switch c.tok {
	case token.IMPORT:
		f, err := parseDecl(c.text)
		if err != nil {
			return compileError(fmt.Sprintf("cell[%d]:%d: %v", n, c.line, err))
		}
		for _, spec := range f.Imports {
			path, _ := strconv.Unquote(spec.Path.Value)
			name := ""
			if spec.Name != nil {
				name = spec.Name.Name
			}
			b.imports[path] = name
		}
		return nil
	case token.TYPE, token.CONST, token.FUNC:
		if f, err := parseDecl(c.text); err == nil && len(f.Decls) == 1 {
			if fn, ok := f.Decls[0].(*ast.FuncDecl); ok && fn.Recv == nil && fn.Name.Name == "main" {
				b.hasMain = true
			}
			line(&b.decls, n, c.line)
			b.decls.WriteString(c.text + "\n")
			return nil
		}
	}
	stmt, offset := parseStmt(c.text), len("package p;func _() {")
	part := func(x ast.Node) string { return c.text[int(x.Pos())-1-offset : int(x.End())-1-offset] }
	list := func(xs []ast.Expr) string {
		if len(xs) == 0 {
			return ""
		}
		return c.text[int(xs[0].Pos())-1-offset : int(xs[len(xs)-1].End())-1-offset]
	}
	switch s := stmt.(type) {
	case *ast.AssignStmt:
		if s.Tok == token.DEFINE {
			var names []string
			for _, x := range s.Lhs {
				names = append(names, part(x))
			}
			b.define(n, c, names, "", list(s.Rhs))
			return nil
		}
	case *ast.DeclStmt:
		if d := s.Decl.(*ast.GenDecl); d.Tok == token.VAR {
			for _, spec := range d.Specs {
				v, kind := spec.(*ast.ValueSpec), ""
				if v.Type != nil {
					kind = part(v.Type)
				}
				var names []string
				for _, name := range v.Names {
					names = append(names, name.Name)
				}
				b.define(n, c, names, kind, list(v.Values))
			}
			return nil
		}
	case *ast.ExprStmt:
		if isLast {
			b.last, b.lastIsValue = c, true
			return nil
		}
	}
	line(&b.body, n, c.line)
	b.body.WriteString(c.text + "\n")
	return nil
}

// usedNames are the identifiers that could name a package.
func usedNames(f *ast.File) map[string]bool {
	used := map[string]bool{}
	ast.Inspect(f, func(x ast.Node) bool {
		if s, ok := x.(*ast.SelectorExpr); ok {
			if id, ok := s.X.(*ast.Ident); ok {
				used[id.Name] = true
			}
		}
		return true
	})
	return used
}

func (b *builder) source(imports map[string]string, value string) string {
	var out bytes.Buffer
	out.WriteString("package main\n")
	var names []string
	for name := range imports {
		names = append(names, name)
	}
	sort.Strings(names)
	for _, name := range names {
		fmt.Fprintf(&out, "import %s %q\n", name, imports[name])
	}
	out.Write(b.decls.Bytes())
	out.WriteString("\nfunc OsbRun() {\n")
	out.Write(b.body.Bytes())
	out.WriteString(value)
	if b.hasMain {
		out.WriteString("\nmain()\n")
	}
	out.WriteString("\n}\n")
	return out.String()
}

type checked struct {
	text string
	file *ast.File
	pkg  *types.Package
	info *types.Info
}

func check(text string) (*checked, error) {
	file, err := parser.ParseFile(fset, "", text, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return nil, compileError(strings.ReplaceAll(err.Error(), " (and ", "\n(and "))
	}
	pkg := types.NewPackage("main", "main")
	declared := map[string]bool{}
	for _, d := range file.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			declared[d.Name.Name] = declared[d.Name.Name] || d.Recv == nil
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				switch s := spec.(type) {
				case *ast.TypeSpec:
					declared[s.Name.Name] = true
				case *ast.ValueSpec:
					for _, name := range s.Names {
						declared[name.Name] = true
					}
				}
			}
		}
	}
	for name, obj := range live {
		if !declared[name] {
			pkg.Scope().Insert(obj)
		}
	}
	values := types.NewParam(token.NoPos, pkg, "values", types.NewSlice(types.NewInterfaceType(nil, nil)))
	pkg.Scope().Insert(types.NewFunc(token.NoPos, pkg, "osbShow", types.NewSignatureType(nil, nil, nil, types.NewTuple(values), nil, true)))
	var problems []string
	seen := map[string]bool{}
	config := types.Config{Importer: packages, Error: func(err error) {
		e := err.(types.Error)
		at := fset.Position(e.Pos)
		words := fmt.Sprintf("%s:%d: %s", at.Filename, at.Line, e.Msg)
		if !seen[words] {
			seen[words] = true
			problems = append(problems, words)
		}
	}}
	info := &types.Info{Defs: map[*ast.Ident]types.Object{}, Uses: map[*ast.Ident]types.Object{},
		Types: map[ast.Expr]types.TypeAndValue{}}
	_ = types.NewChecker(&config, fset, pkg, info).Files([]*ast.File{file})
	if len(problems) > 0 {
		return nil, compileError(strings.Join(problems, "\n"))
	}
	return &checked{text, file, pkg, info}, nil
}

// translate makes a package of a cell.
func translate(n int, code string) (*cellPackage, error) {
	b := &builder{names: map[string]bool{}, imports: map[string]string{}}
	chunks := split(code)
	for i, c := range chunks {
		if err := b.add(n, c, i == len(chunks)-1); err != nil {
			return nil, err
		}
	}
	imports, err := b.resolveImports()
	if err != nil {
		return nil, err
	}
	cell := &cellPackage{name: "osbc" + strconv.Itoa(n), imports: imports}
	if len(chunks) == 0 {
		cell.empty = true
		return cell, nil
	}
	c, value, err := b.checkValue(n, imports)
	if err != nil {
		return nil, err
	}
	cell.checked = c.pkg
	cell.text, err = emit(cell, b, c, value)
	return cell, err
}

// resolveImports: what this cell imports, and of what earlier ones have, what it uses; name -> path.
func (b *builder) resolveImports() (map[string]string, error) {
	var paths []string
	for path := range b.imports {
		paths = append(paths, path)
	}
	if err := getMissing(paths); err != nil {
		return nil, err
	}
	all := map[string]string{}
	for name, path := range imported {
		all[name] = path
	}
	for path, name := range b.imports {
		if name == "" {
			pkg, err := packages.Import(path)
			if err != nil {
				return nil, compileError(fmt.Sprintf("import %q: %v", path, err))
			}
			name = pkg.Name()
		}
		if name != "_" && name != "." {
			all[name] = path
		}
	}
	return all, nil
}

// checkValue checks the cell; if it ends in an expression that has a value, that is shown.
func (b *builder) checkValue(n int, imports map[string]string) (*checked, bool, error) {
	try := func(value string) (*checked, error) {
		file, err := parser.ParseFile(token.NewFileSet(), "", b.source(nil, value), parser.SkipObjectResolution)
		if err != nil {
			return check(b.source(nil, value))
		}
		used, needed := usedNames(file), map[string]string{}
		for name, path := range imports {
			if used[name] && !b.names[name] {
				needed[name] = path
			}
		}
		return check(b.source(needed, value))
	}
	if !b.lastIsValue {
		c, err := try("")
		return c, false, err
	}
	var at bytes.Buffer
	line(&at, n, b.last.line)
	plain, plainErr := try(at.String() + b.last.text + "\n")
	if plainErr == nil && !worthShowing(plain) {
		return plain, false, nil
	}
	shown, err := try(at.String() + "osbShow(" + b.last.text + ")\n")
	if err != nil {
		if plainErr != nil {
			err = plainErr
		}
		return nil, false, err
	}
	return shown, true, nil
}

// worthShowing: the last statement is a call with results, other than those of Println and its like.
func worthShowing(c *checked) bool {
	var last ast.Expr
	for _, d := range c.file.Decls {
		if fn, ok := d.(*ast.FuncDecl); ok && fn.Name.Name == "OsbRun" && fn.Recv == nil {
			for _, s := range fn.Body.List {
				if e, ok := s.(*ast.ExprStmt); ok {
					last = e.X
				}
			}
		}
	}
	tv, ok := c.info.Types[last]
	if !ok || tv.IsVoid() {
		return false
	}
	if tuple, ok := tv.Type.(*types.Tuple); ok {
		return tuple.Len() > 0 && tuple.At(tuple.Len()-1).Type().String() != "error"
	}
	return true
}

func keep(cell *cellPackage) {
	for _, name := range cell.checked.Scope().Names() {
		obj := cell.checked.Scope().Lookup(name)
		if obj.Pkg() == cell.checked && name != "OsbRun" && name != "main" && name != "osbShow" {
			live[name] = obj
		}
	}
	for name, path := range cell.imports {
		imported[name] = path
	}
}

// ---- packages that cells import ----

func openExport(path string) (io.ReadCloser, error) {
	if exports[path] == "" {
		out, err := goTool("list", "-export", "-deps", "-f", "{{.ImportPath}}\t{{.Export}}", path)
		if err != nil {
			return nil, fmt.Errorf("%s", strings.TrimSpace(out))
		}
		for _, l := range strings.Split(out, "\n") {
			if name, file, ok := strings.Cut(l, "\t"); ok && file != "" {
				exports[name] = file
			}
		}
	}
	return os.Open(exports[path])
}

// getMissing fetches modules of packages that are not the standard library's.
func getMissing(paths []string) error {
	for _, path := range paths {
		first, _, _ := strings.Cut(path, "/")
		if !strings.Contains(first, ".") {
			continue
		}
		if out, err := goTool("get", path); err != nil {
			return compileError(fmt.Sprintf("import %q: %s", path, strings.TrimSpace(out)))
		}
	}
	return nil
}

func importsOf(code string) (paths []string) {
	f, _ := parser.ParseFile(token.NewFileSet(), "", code, parser.ImportsOnly)
	if f != nil {
		for _, spec := range f.Imports {
			path, _ := strconv.Unquote(spec.Path.Value)
			paths = append(paths, path)
		}
	}
	return paths
}
