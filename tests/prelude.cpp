// What nearly every test includes is compiled once: the precompiled headers of this file's target are those of all tests. Tests still
// include what they use.
