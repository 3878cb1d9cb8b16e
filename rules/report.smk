# Metrics + references → tables; with runs during training, analyses and embeddings → figures; both → claims → report.


TABLE = f"{ROOT}/tables/{{paper}}/{{table}}"


rule table:
    input:
        measured=of(PLAN.table_inputs, "paper", "table"),
        overlap=of(PLAN.table_overlaps, "paper", "table"),
        reference=code_file("references/{paper}/{table}.csv"),
        paper=code_file("references/{paper}/paper.yaml"),
        lock=code_file("envs/requirements.lock"),
        sources=of(PLAN.table_sources, "paper", "table"),
        template=code_file("src/pretrieve/reporting/templates/table.html.j2"),
        schema=code_file("src/pretrieve/schemas/references.schema.yaml"),
    output:
        csv=shown(f"{TABLE}.csv", "table", "Tables", {"table": "{table}", "as": "one line for each cell (CSV)"}),
        md=f"{TABLE}.md",
        html=shown(f"{TABLE}.html", "table_page", "Tables", {"table": "{table}", "as": "as printed (HTML)"}),
        tex=f"{TABLE}.tex",
        manifest=f"{TABLE}.manifest.json",
    log:
        f"{ROOT}/logs/table/{{paper}}/{{table}}.log",
    benchmark:
        f"{ROOT}/benchmarks/table/{{paper}}-{{table}}.tsv"
    conda:
        "../envs/cpu.yaml"
    threads: NEEDS["table"].threads
    resources:
        **NEEDS["table"].resources,
    params:
        code=stage_code("table.py"),
        setting=as_text(PLAN.setting, "paper"),
        hash=config_hash(config),
    message:
        "Writing {wildcards.paper} {wildcards.table}"
    shell:
        f"python {SCRIPTS}/table.py"
        " --reference {input.reference:q} --setting {params.setting} --config-hash {params.hash} --lock {input.lock:q}"
        " --sources {input.sources:q} --csv {output.csv} --md {output.md} --html {output.html} --tex {output.tex}"
        " --manifest {output.manifest} --log {log}"


rule figure:
    input:
        measured=lambda wildcards: figure_plan.figure_inputs(PLAN, f"{wildcards.paper}/{wildcards.figure}"),
        reference=code_file("references/{paper}/{figure}.yaml"),
        tables=of(DATA.figure_tables, "paper", "figure"),
        paper=code_file("references/{paper}/paper.yaml"),
        lock=code_file("envs/requirements.lock"),
        sources=of(PLAN.figure_sources, "paper", "figure"),
        schemas=[code_file(f"src/pretrieve/schemas/{name}.schema.yaml") for name in ("figures", "references")],
    output:
        csv=f"{ROOT}/figures/{{paper}}/{{figure}}.csv",
        svg=shown(f"{ROOT}/figures/{{paper}}/{{figure}}.svg", "figure", "Figures", {"figure": "{figure}"}),
        manifest=f"{ROOT}/figures/{{paper}}/{{figure}}.manifest.json",
    log:
        f"{ROOT}/logs/figure/{{paper}}/{{figure}}.log",
    benchmark:
        f"{ROOT}/benchmarks/figure/{{paper}}-{{figure}}.tsv"
    conda:
        "../envs/cpu.yaml"
    threads: NEEDS["figure"].threads
    resources:
        **NEEDS["figure"].resources,
    params:
        code=stage_code("figure.py"),
        setting=as_text(partial(figure_plan.setting_of, PLAN), "paper"),
        hash=config_hash(config),
    message:
        "Drawing {wildcards.paper} {wildcards.figure}"
    shell:
        "OMP_NUM_THREADS={threads}"
        f" python {SCRIPTS}/figure.py"
        " --reference {input.reference:q} --setting {params.setting} --config-hash {params.hash} --lock {input.lock:q}"
        " --sources {input.sources:q} --csv {output.csv} --svg {output.svg} --manifest {output.manifest} --log {log}"


rule claims:
    input:
        tables=TABLE_FILES,
        figures=[file.replace(".svg", ".csv") for file in PLAN.figure_files()],
        claims=code_file("references/claims.yaml"),
        reproductions=code_file("references/reproductions.yaml"),
    output:
        csv=shown(f"{ROOT}/claims.csv", "claims", "Claims", {"claims": "verdicts"}),
        groups=shown(f"{ROOT}/claims.groups.csv", "claims_groups", "Claims", {"claims": "comparisons of cells"}),
        md=f"{ROOT}/claims.md",
    log:
        f"{ROOT}/logs/claims.log",
    benchmark:
        f"{ROOT}/benchmarks/claims/all.tsv"
    conda:
        "../envs/cpu.yaml"
    threads: NEEDS["report"].threads
    resources:
        **NEEDS["report"].resources,
    params:
        code=stage_code("claims.py"),
        config=as_text(partial(of_one_scale, config)),
    message:
        "Judging the papers' claims by what was measured"
    shell:
        f"python {SCRIPTS}/claims.py"
        " --claims {input.claims:q} --reproductions {input.reproductions:q} --config {params.config} --csv {output.csv}"
        " --groups {output.groups} --md {output.md} --log {log}"


rule league:
    input:
        tables=TABLE_FILES,
    output:
        csv=shown(f"{ROOT}/league.csv", "league", "Claims", {"claims": "league table"}),
        pairs=f"{ROOT}/league.pairs.csv",
        order=f"{ROOT}/order.csv",
    log:
        f"{ROOT}/logs/league.log",
    benchmark:
        f"{ROOT}/benchmarks/league/all.tsv"
    conda:
        "../envs/cpu.yaml"
    threads: NEEDS["report"].threads
    resources:
        **NEEDS["report"].resources,
    params:
        code=stage_code("league.py"),
        config=as_text(partial(of_one_scale, config)),
    message:
        "Comparing encoders with each other, and their order with the papers'"
    shell:
        f"python {SCRIPTS}/league.py"
        " --config {params.config} --csv {output.csv} --pairs {output.pairs} --order {output.order} --log {log}"


# Learning curves and costs stand beside what the tables were made of: they are there when the tables are.
rule report:
    input:
        tables=TABLE_FILES,
        manifests=[file.replace(".csv", ".manifest.json") for file in TABLE_FILES],
        figures=PLAN.figure_files(),
        claims=[rules.claims.output.csv, rules.claims.output.groups],
        league=[rules.league.output.csv, rules.league.output.pairs, rules.league.output.order],
        references=[code_file(f"references/{name}.csv") for name in sorted(config["tables"])],
        templates=[
            code_file(f"src/pretrieve/reporting/templates/{name}")
            for name in ("report.html.j2", "report.css", "report.js", "findings.html.j2", "findings.css", "league.js")
        ],
    output:
        html=shown(f"{ROOT}/report.html", "report", "Report", {"report": "everything on one page"}),
    log:
        f"{ROOT}/logs/report.log",
    benchmark:
        f"{ROOT}/benchmarks/report/all.tsv"
    conda:
        "../envs/cpu.yaml"
    threads: NEEDS["report"].threads
    resources:
        **NEEDS["report"].resources,
    params:
        code=stage_code("report.py"),
        config=as_text(partial(of_one_scale, config)),
    message:
        "Writing the report"
    shell:
        f"python {SCRIPTS}/report.py --config {{params.config}} --html {{output.html}} --log {{log}}"


# A mistyped name of a table, figure or metrics file, or one of another scale, size or seed: the error says what is wrong with it.
rule no_such_page:
    input:
        lambda wildcards: PLAN.refuse_page(wildcards.page),
    output:
        "{page}",
    wildcard_constraints:
        page=rf"(?=results/[^/]+/(?:tables|figures)/)(?!(?:{alternation(PLAN.page_files)})$).+"
        rf"|(?!{ROOT}/metrics/(?:{alternation(['bm25', *config['encoders']])})\."
        rf"(?:{alternation(config['recipes'])})-(?:{alternation(PLAN.sizes_on_datasets())})/"
        rf"seed(?:{alternation(['0', *map(str, SEEDS)])})\.json$)"
        r"results/[^/]+/metrics/[^/.]+\.[^/]+-[^/]+/[^/]+/seed\d+\.json",
