package main

import (
	"fmt"
	"go/ast"
	"go/token"
	"go/types"
	"sort"
	"strconv"
	"strings"
)

type edit struct {
	from, to int
	text     string
}

// emitter writes the checked source of a cell as the package it is compiled as.
type emitter struct {
	cell  *cellPackage
	c     *checked
	edits []edit
	cells map[string]bool   // packages of earlier cells that are needed
	extra map[string]string // path -> name, of packages that only types of variables name
	err   error
}

func exported(name string) string {
	if token.IsExported(name) {
		return name
	}
	return "X_" + name
}

func (e *emitter) offset(pos token.Pos) int { return fset.PositionFor(pos, false).Offset }

// qualified is the name of an object of a cell's package as this cell has to write it.
func (e *emitter) qualified(obj types.Object) string {
	if obj.Pkg() == e.c.pkg {
		return exported(obj.Name())
	}
	home := cellOf[obj.Pkg()]
	e.cells[home] = true
	return home + "." + exported(obj.Name())
}

func isMember(obj types.Object) bool {
	switch o := obj.(type) {
	case *types.Var:
		return o.IsField()
	case *types.Func:
		return o.Type().(*types.Signature).Recv() != nil
	}
	return false
}

func (e *emitter) rename(id *ast.Ident) {
	obj := e.c.info.Uses[id]
	if obj == nil {
		obj = e.c.info.Defs[id]
	}
	if obj == nil || id.Name == "_" || obj.Pkg() == nil {
		return
	}
	if obj.Pkg() != e.c.pkg && cellOf[obj.Pkg()] == "" {
		return
	}
	text := id.Name
	if isMember(obj) {
		text = exported(id.Name)
	} else if obj.Parent() == obj.Pkg().Scope() && obj.Name() != "OsbRun" && obj.Name() != "osbShow" {
		text = e.qualified(obj)
	}
	if text != id.Name {
		at := e.offset(id.Pos())
		e.edits = append(e.edits, edit{at, at + len(id.Name), text})
	}
}

// Fields that were private stay out of JSON, although they have an exported name now.
func (e *emitter) hide(s *ast.StructType) {
	for _, f := range s.Fields.List {
		private := len(f.Names) > 0 && f.Tag == nil
		for _, name := range f.Names {
			private = private && !token.IsExported(name.Name)
		}
		if private {
			at := e.offset(f.End())
			e.edits = append(e.edits, edit{at, at, " `json:\"-\"`"})
		}
	}
}

// ---- types as source ----

func (e *emitter) object(obj types.Object) string {
	pkg := obj.Pkg()
	switch {
	case pkg == nil:
		return obj.Name()
	case pkg == e.c.pkg || cellOf[pkg] != "":
		return e.qualified(obj)
	case !obj.Exported():
		e.err = compileError(fmt.Sprintf("a variable at the top level would have the type %s.%s, which is private to its package", pkg.Name(), obj.Name()))
	}
	name := e.extra[pkg.Path()]
	if name == "" {
		name = "osbi" + strconv.Itoa(len(e.extra))
		e.extra[pkg.Path()] = name
	}
	return name + "." + obj.Name()
}

func (e *emitter) tuple(t *types.Tuple, variadic bool) string {
	var parts []string
	for i := 0; i < t.Len(); i++ {
		text := e.typ(t.At(i).Type())
		if variadic && i == t.Len()-1 {
			text = "..." + strings.TrimPrefix(text, "[]")
		}
		parts = append(parts, text)
	}
	return "(" + strings.Join(parts, ", ") + ")"
}

func (e *emitter) signature(t *types.Signature) string {
	return e.tuple(t.Params(), t.Variadic()) + " " + e.tuple(t.Results(), false)
}

func (e *emitter) fieldName(v *types.Var) string {
	if v.Pkg() == e.c.pkg || cellOf[v.Pkg()] != "" {
		return exported(v.Name())
	}
	return v.Name()
}

func (e *emitter) structure(t *types.Struct) string {
	var parts []string
	for i := 0; i < t.NumFields(); i++ {
		f, text := t.Field(i), ""
		if !f.Embedded() {
			text = e.fieldName(f) + " "
		}
		text += e.typ(f.Type())
		if tag := t.Tag(i); tag != "" {
			text += " " + strconv.Quote(tag)
		} else if !f.Exported() && !f.Embedded() {
			text += " `json:\"-\"`"
		}
		parts = append(parts, text)
	}
	return "struct { " + strings.Join(parts, "; ") + " }"
}

func (e *emitter) iface(t *types.Interface) string {
	var parts []string
	for i := 0; i < t.NumExplicitMethods(); i++ {
		m := t.ExplicitMethod(i)
		name := m.Name()
		if m.Pkg() == e.c.pkg || cellOf[m.Pkg()] != "" {
			name = exported(name)
		}
		parts = append(parts, name+e.signature(m.Type().(*types.Signature)))
	}
	for i := 0; i < t.NumEmbeddeds(); i++ {
		parts = append(parts, e.typ(t.EmbeddedType(i)))
	}
	return "interface { " + strings.Join(parts, "; ") + " }"
}

func (e *emitter) typ(t types.Type) string {
	switch t := t.(type) {
	case *types.Basic:
		if t.Kind() == types.UnsafePointer {
			return e.object(types.Unsafe.Scope().Lookup("Pointer"))
		}
		return t.Name()
	case *types.Pointer:
		return "*" + e.typ(t.Elem())
	case *types.Slice:
		return "[]" + e.typ(t.Elem())
	case *types.Array:
		return fmt.Sprintf("[%d]%s", t.Len(), e.typ(t.Elem()))
	case *types.Map:
		return fmt.Sprintf("map[%s]%s", e.typ(t.Key()), e.typ(t.Elem()))
	case *types.Chan:
		return map[types.ChanDir]string{types.SendRecv: "chan ", types.SendOnly: "chan<- ", types.RecvOnly: "<-chan "}[t.Dir()] + "(" + e.typ(t.Elem()) + ")"
	case *types.Signature:
		return "func" + e.signature(t)
	case *types.Struct:
		return e.structure(t)
	case *types.Interface:
		return e.iface(t)
	case interface { // a named type, or an alias
		Obj() *types.TypeName
	}:
		text := e.object(t.Obj())
		if n, ok := t.(*types.Named); ok && n.TypeArgs().Len() > 0 {
			var args []string
			for i := 0; i < n.TypeArgs().Len(); i++ {
				args = append(args, e.typ(n.TypeArgs().At(i)))
			}
			text += "[" + strings.Join(args, ", ") + "]"
		}
		return text
	}
	return t.String()
}

// ---- the whole ----

// hoist writes `var x, y = values` as declarations with types; the values are assigned in Run.
func (e *emitter) hoist(d *ast.GenDecl) {
	var out []string
	for _, spec := range d.Specs {
		for _, name := range spec.(*ast.ValueSpec).Names {
			if name.Name == "_" {
				continue
			}
			out = append(out, "var "+exported(name.Name)+" "+e.typ(e.c.info.Defs[name].Type()))
		}
	}
	e.edits = append(e.edits, edit{e.offset(d.Pos()), e.offset(d.End()), strings.Join(out, "; ")})
}

func emit(cell *cellPackage, b *builder, c *checked, value bool) (string, error) {
	e := &emitter{cell: cell, c: c, cells: map[string]bool{}, extra: map[string]string{}}
	cellOf[c.pkg] = cell.name
	for _, d := range c.file.Decls {
		if g, ok := d.(*ast.GenDecl); ok && g.Tok == token.VAR {
			e.hoist(g)
			continue
		}
		ast.Inspect(d, func(x ast.Node) bool {
			switch x := x.(type) {
			case *ast.Ident:
				e.rename(x)
			case *ast.StructType:
				e.hide(x)
			}
			return true
		})
	}
	if e.err != nil {
		return "", e.err
	}
	return e.assemble(value), nil
}

func (e *emitter) assemble(value bool) string {
	var out, head strings.Builder
	sort.SliceStable(e.edits, func(i, j int) bool { return e.edits[i].from < e.edits[j].from })
	at := 0
	for _, x := range e.edits {
		if x.from < at {
			continue
		}
		out.WriteString(e.c.text[at:x.from] + x.text)
		at = x.to
	}
	out.WriteString(e.c.text[at:])
	fmt.Fprintf(&head, "package %s\n", e.cell.name)
	for home := range e.cells {
		fmt.Fprintf(&head, "import %q\n", "osbkernel/"+home)
	}
	for path, name := range e.extra {
		fmt.Fprintf(&head, "import %s %q\n", name, path)
	}
	text := out.String()
	if value {
		head.WriteString("import \"osbkernel/osb\"\n")
		text = strings.ReplaceAll(text, "osbShow(", "osb.Show(")
	}
	return head.String() + strings.TrimPrefix(text, "package main\n")
}
